package radl

// Place is the line and column of a part of the source, counted from 1.
type Place struct{ Line, Column int }

// Document is a RADL document. Parameters are replaced.
type Document struct {
	// Description is nil if there is none.
	Description *Block
	// Ansibles, Networks and Systems are in the order of the source.
	Ansibles, Networks, Systems []Block
	Recipes                     []Recipe
	// Plan is nil without a contextualize sentence. Several sentences are merged.
	Plan    *Plan
	Deploys []Deploy
}

// Block is a sentence with features: description, ansible, network or system.
type Block struct {
	Place
	ID string
	// IsReference means that an earlier document defines it: there were no parentheses.
	IsReference bool
	Features    []Feature
	Soft        []Soft
}

// Soft is a group of features that applies if it is compatible.
type Soft struct {
	Place
	Weight   int
	Features []Feature
}

// Comparisons of features.
const (
	Equal    = "="
	Less     = "<"
	Greater  = ">"
	AtMost   = "<="
	AtLeast  = ">="
	Contains = "contains"
)

// Feature is a feature with a comparison and a value.
type Feature struct {
	Place
	Name, Op string
	Value    Value
}

// ValueKind is the kind of a Value.
type ValueKind int

// Kinds of values.
const (
	Number ValueKind = iota + 1
	Text             // in quotes
	List             // of texts
	Group            // the features of "contains"
)

// Value is the value of a Feature.
type Value struct {
	Kind ValueKind
	// Number is the number as written, and Unit the unit behind it, in upper case; empty for
	// none.
	Number, Unit string
	Text         string
	List         []string
	Group        []Feature
}

// Recipe is a configure sentence. Its text is YAML, empty for "configure x ()".
type Recipe struct {
	Place
	ID string
	// IsReference means that an earlier document defines it.
	IsReference bool
	Text        string
	// TextLine is the line of the first line of Text.
	TextLine int
}

// Plan is the contextualize sentence.
type Plan struct {
	Place
	// Deadline is in seconds; 0 if there is none.
	Deadline int
	Options  []Feature
	Items    []PlanItem
}

// Tools of a PlanItem.
const (
	Ansible   = "Ansible"
	CloudInit = "cloud_init"
)

// PlanItem is one line of a contextualize sentence.
type PlanItem struct {
	Place
	System, Recipe string
	// Step is 0 if the line has none.
	Step int
	// Tool is Ansible or CloudInit; empty if the line has none.
	Tool string
}

// Deploy is a deploy sentence.
type Deploy struct {
	Place
	System string
	Count  int
	// Cloud is empty if the sentence names none.
	Cloud string
}
