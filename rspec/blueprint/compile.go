package blueprint

import (
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// Limits of a compilation. What is within them is within the limits of package rspec.
const (
	maxNodes      = 2000
	maxComponents = 1000
	maxSteps      = 150 // of one node
	maxExpanded   = 3 << 20
	maxElements   = 50_000
	maxAllowed    = 100     // patterns of providers.allow
	maxOrder      = 1 << 20 // comparisons of the order
)

// Options has the input of a compilation besides the document.
type Options struct {
	// Site has the components, sliver types and images of the aggregate; nil if they are unknown.
	Site *inventory.Inventory
	// Library is nil for the standard one.
	Library *Library
	// Files are the files beside the source; nil if there are none.
	Files fs.FS
	// ContentDir is the folder into which larger files are written under their SHA-256, and
	// ContentURL the URL of this folder; both or neither.
	ContentDir, ContentURL string
	// Nodes and Links are the client_ids of the slice's existing nodes and links.
	Nodes, Links []string
	// Work bounds the compilation; nil for no limit. If its Err is not nil, the result is incomplete.
	Work *rspec.Work
}

// part is a component with its type and place in the request.
type part struct {
	*component
	label        string
	kind         *componentType
	requirements []*need
	pointing     []*need // requirements of others that it fulfills
	implied      bool
	isBroken     bool // a mistake concerns its type or its requirements
	urn          string
	nodes        []int
	stage        int
	state        int // of the search for cycles: 0 new, 1 entered, 2 done
	isPlaced     bool
}

// need is a requirement with its type and targets.
type need struct {
	*requirement
	kind    *requirementType
	source  *part
	fields  []field
	targets []*part
}

type compiler struct {
	problemList
	o        Options
	d        *Document
	l        *Library
	parts    []*part
	byID     map[string]*part
	global   []*need
	request  generate.Request
	taken    map[string]bool
	links    map[string]int
	joined   map[[2]string]bool
	allow    []string
	country  string
	expanded int
	elements int
	compared int
	contents map[string]*content
	implied  map[string]int
	isVague  bool     // a mistake hides what refers to some components
	names    []string // by which other nodes reach those of the request
}

// Compile returns the request for the document; nil if an error is among the problems, or was among
// those of Parse.
func Compile(d *Document, o Options) (*generate.Request, []rspec.Problem) {
	c := &compiler{o: o, d: d, l: o.Library, byID: map[string]*part{}, taken: map[string]bool{}, links: map[string]int{}, isVague: d.isPartial, joined: map[[2]string]bool{}, contents: map[string]*content{}, implied: map[string]int{}}
	if c.l == nil {
		c.l = Standard()
	}
	if d.files != nil {
		c.o.Files = d.files
	}
	for _, name := range slices.Concat(o.Nodes, o.Links) {
		c.taken[name] = true
	}
	c.request.Language = "blueprint"
	if d.name != nil {
		c.request.Features = append(c.request.Features, generate.Feature{Name: "name", Value: flat(d.name)})
	}
	c.request.Features = append(c.request.Features, features("", d.features)...)
	for _, step := range []func(){c.declare, c.readPolicies, c.inferTypes, c.warnOfUnused, c.place, c.order, c.nameNodes, c.addSteps, c.finish} {
		if step(); c.stopped() {
			break
		}
	}
	if c.Failed() || d.isPartial {
		return nil, c.Problems()
	}
	return &c.request, c.Problems()
}

// flat writes a value as one text.
func flat(v *value) string {
	switch v.kind {
	case yaml.SequenceNode:
		var list []string
		for _, i := range v.items {
			list = append(list, flat(i))
		}
		return strings.Join(list, " ")
	case yaml.MappingNode:
		var list []string
		for _, f := range v.fields {
			list = append(list, f.name+"="+flat(f.value))
		}
		return strings.Join(list, " ")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(v.text, "?"))
}

// features carry what has no other place.
func features(prefix string, list []field) (out []generate.Feature) {
	for _, f := range list {
		name := strings.Join(strings.Fields(prefix+f.name), " ")
		if name != "" {
			out = append(out, generate.Feature{Name: display.Cut(name, 80), Value: flat(f.value)})
		}
	}
	return out
}
