package rspec

import (
	"fmt"
	"slices"

	"patchbay/schemas/xmltree"
)

// Limits bound what a request may hold; what is beyond them is TooBig. Bytes and
// Elements bound the requests of a slice together, too (SliceTooBig). Operators set the
// fields that have a key. A zero field takes its default.
type Limits struct {
	// Bytes is the size of the document; 8 MiB, at most 1 GiB.
	Bytes int `yaml:"bytes"`
	// Depth is how deep elements nest, the root being 1; 240, which is also the
	// most, for libxml2 gives up a little later.
	Depth int `yaml:"depth"`
	// Elements counts elements, comments, processing instructions and CDATA
	// sections together; 200,000. A document holds at most twice as many
	// attributes.
	Elements int
	// Attributes is the number of attributes and namespace declarations of one
	// element; 100, at most 10,000.
	Attributes int
	// Namespaces is the number of namespace declarations made by an element and
	// all elements around it; 250, at most 10,000.
	Namespaces int
	// NamespaceBytes is the length of a namespace's name, which is written once
	// and costs with every element that uses it; 1024 bytes as it is written.
	NamespaceBytes int
	// Nodes and Links count those of all aggregates; 10,000 each.
	Nodes int `yaml:"nodes"`
	Links int `yaml:"links"`
	// Interfaces counts those of all nodes together; 50,000.
	Interfaces int
	// ClientID is the length of a client_id of ours in bytes; 256.
	ClientID int
	// Addresses is how many one interface of ours may ask for; 64.
	Addresses int
	// Services is how many installs and executes a node of ours may have; 200.
	Services int
	// Command is the length in bytes of the command of an execute, and of the url
	// of an install; 64 KiB, at most 100 KiB, for Linux takes no longer one.
	Command int
}

// Large is the size in bytes from which a request costs so much memory while it
// is read, up to ninety times its bytes, that few should be read at one time.
const Large = 256 << 10

// DefaultLimits are what Limits of which nothing is said come to.
func DefaultLimits() Limits {
	text := xmltree.DefaultLimits()
	return Limits{
		Bytes: text.Bytes, Depth: text.Depth, Elements: text.Elements, Attributes: text.Attrs, Namespaces: text.Namespaces,
		NamespaceBytes: 1024,
		Nodes:          10_000, Links: 10_000, Interfaces: 50_000, ClientID: 256, Addresses: 64, Services: 200, Command: 64 << 10,
	}
}

// limitsKey stands before the name of a limit in a site's configuration.
const limitsKey = "limits.rspec."

// limit is one of the limits, with the name an operator knows it by.
type limit struct {
	key     string
	value   *int
	highest int
}

func (l *Limits) all() []limit {
	text := xmltree.HighestLimits()
	return []limit{
		{"bytes", &l.Bytes, text.Bytes},
		{"depth", &l.Depth, text.Depth},
		{"elements", &l.Elements, text.Elements},
		{"attributes", &l.Attributes, text.Attrs},
		{"namespaces", &l.Namespaces, text.Namespaces},
		{"namespace_bytes", &l.NamespaceBytes, text.NamespaceBytes},
		{"nodes", &l.Nodes, 1 << 28},
		{"links", &l.Links, 1 << 28},
		{"interfaces", &l.Interfaces, 1 << 28},
		{"client_id", &l.ClientID, 1 << 28},
		{"addresses", &l.Addresses, 1 << 28},
		{"services", &l.Services, 4096},
		{"command", &l.Command, 100 << 10},
	}
}

// Validate calls wrong for each field that is negative or beyond what can be
// set, with its key in a site's configuration.
func (l Limits) Validate(wrong func(key, format string, args ...any)) {
	for _, x := range l.all() {
		if *x.value < 0 || *x.value > x.highest {
			wrong(limitsKey+x.key, "%d is not possible; give a number from 1 to %d, or leave it out", *x.value, x.highest)
		}
	}
}

func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	from := def.all()
	for i, x := range l.all() {
		if *x.value <= 0 {
			*x.value = *from[i].value
		}
		*x.value = min(*x.value, x.highest)
	}
	return l
}

// OfSlice is how many bytes and elements the requests of one slice may have together:
// as many as one request.
func (l Limits) OfSlice() (bytes, elements int) {
	l = l.withDefaults()
	return l.Bytes, l.Elements
}

// SliceTooBig says that the requests of a slice would have so many bytes and elements
// together; "" if they may. held are those of what the slice has already.
func (l Limits) SliceTooBig(heldBytes, heldElements, bytes, elements int) string {
	mostBytes, mostElements := l.OfSlice()
	var what, key string
	var held, most, sum int
	switch {
	case bytes > mostBytes:
		what, key, held, most, sum = "bytes", "bytes", heldBytes, mostBytes, bytes
	case elements > mostElements:
		what, key, held, most, sum = "elements", "elements", heldElements, mostElements, elements
	default:
		return ""
	}
	return fmt.Sprintf("the requests of one slice may have %d %s together; those of this slice have %d, and would have %d; %s",
		most, what, held, sum, raise("Delete slivers of the slice first", key))
}

// widest are the limits of what was let in once.
func widest() Limits {
	var l Limits
	for _, x := range l.all() {
		*x.value = x.highest
	}
	return l
}

func (l Limits) xml() xmltree.Limits {
	return xmltree.Limits{
		Bytes: l.Bytes, Depth: l.Depth, Elements: l.Elements, Attrs: l.Attributes,
		Namespaces: l.Namespaces, NamespaceBytes: l.NamespaceBytes,
	}
}

// settable are the limits that an operator can raise.
var settable = []string{"bytes", "depth", "nodes", "links"}

// raise is the remedy for too much of something: what the client can do, and what the
// operator, if the limit can be raised.
func raise(less, key string) string {
	if !slices.Contains(settable, key) {
		return less
	}
	return less + ", or ask the operator to raise " + limitsKey + key
}

// tooBig says in our words which limit of the text was passed.
func tooBig(e *xmltree.LimitError) Problem {
	p := Problem{Kind: TooBig, Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the request has more than %d %s", e.Max, e.Limit)}
	switch e.Limit {
	case "bytes":
		p.Remedy = raise("divide it among several slices", "bytes")
	case "elements", "attributes": // these are twice the elements
		p.Remedy = raise("divide it among several slices", "elements")
	case "attributes of one element":
		p.Remedy = raise("leave some out", "attributes")
	case "namespace declarations in one place":
		p.Remedy = raise("declare each namespace once", "namespaces")
	case "bytes in the name of a namespace":
		p.Remedy = raise("give it a shorter name", "namespace_bytes")
	default:
		p.Remedy = "nest them less deeply"
		if e.Max < xmltree.HighestLimits().Depth {
			p.Remedy = raise(p.Remedy, "depth")
		} else {
			p.Remedy += "; no setting goes further"
		}
	}
	return p
}
