package rspec

import (
	"fmt"
	"slices"

	"patchbay/schemas/xmltree"
)

// Limits bound what a request may contain; a larger one is refused as TooBig. Bytes
// and Elements also bound all requests of a slice together (SliceTooBig). Operators
// set the fields that have a key. A zero field takes its default.
type Limits struct {
	// Bytes is the size of the document; 8 MiB, at most 1 GiB.
	Bytes int `yaml:"bytes"`
	// Depth is the nesting of elements, the root being 1; 240, which is also the
	// maximum, since libxml2 fails slightly above it.
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
	// NamespaceBytes is the length of a namespace name as written, since each
	// element that uses it costs that memory; 1024 bytes.
	NamespaceBytes int
	// Nodes and Links count those of all aggregates; 10,000 each.
	Nodes int `yaml:"nodes"`
	Links int `yaml:"links"`
	// Interfaces counts those of all nodes together; 50,000.
	Interfaces int
	// ClientID is the length of a client_id of ours in bytes; 256.
	ClientID int
	// Addresses is the number of addresses that one interface of ours may request; 64.
	Addresses int
	// Services is the number of installs and executes of one node of ours; 200.
	Services int
	// Command is the length in bytes of the command of an execute and of the url of
	// an install; 64 KiB, at most 100 KiB, since Linux accepts no longer argument.
	Command int
}

// Large is the size in bytes from which few requests should be read at the same
// time: reading one takes up to ninety times its bytes of memory.
const Large = 256 << 10

// DefaultLimits returns the default of every limit.
func DefaultLimits() Limits {
	text := xmltree.DefaultLimits()
	return Limits{
		Bytes: text.Bytes, Depth: text.Depth, Elements: text.Elements, Attributes: text.Attrs, Namespaces: text.Namespaces,
		NamespaceBytes: 1024,
		Nodes:          10_000, Links: 10_000, Interfaces: 50_000, ClientID: 256, Addresses: 64, Services: 200, Command: 64 << 10,
	}
}

// limitsKey is the prefix of the names of limits in a site's configuration.
const limitsKey = "limits.rspec."

// limit is one limit with its name in the configuration.
type limit struct {
	key     string
	value   *int
	highest int
}

// fields returns all limits with their names and maxima.
func (l *Limits) fields() []limit {
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

// Validate calls wrong for each field that is negative or above its maximum, with
// its key in a site's configuration.
func (l Limits) Validate(wrong func(key, format string, args ...any)) {
	for _, x := range l.fields() {
		if *x.value < 0 || *x.value > x.highest {
			wrong(limitsKey+x.key, "%d is not possible; give a number from 1 to %d, or leave it out", *x.value, x.highest)
		}
	}
}

// withDefaults returns l with defaults for zero fields and maxima for larger ones.
func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	from := def.fields()
	for i, x := range l.fields() {
		if *x.value <= 0 {
			*x.value = *from[i].value
		}
		*x.value = min(*x.value, x.highest)
	}
	return l
}

// PerSlice returns the bytes and elements that all requests of one slice may have
// together: the same as for one request.
func (l Limits) PerSlice() (bytes, elements int) {
	l = l.withDefaults()
	return l.Bytes, l.Elements
}

// SliceTooBig returns the refusal if the requests of a slice would together have too many
// bytes or elements; "" if they would not. bytes and elements are the sums with the new
// request, heldBytes and heldElements those without it.
func (l Limits) SliceTooBig(heldBytes, heldElements, bytes, elements int) string {
	maxBytes, maxElements := l.PerSlice()
	var what, key string
	var held, most, sum int
	switch {
	case bytes > maxBytes:
		what, key, held, most, sum = "bytes", "bytes", heldBytes, maxBytes, bytes
	case elements > maxElements:
		what, key, held, most, sum = "elements", "elements", heldElements, maxElements, elements
	default:
		return ""
	}
	return fmt.Sprintf("the requests of one slice may have %d %s together; those of this slice have %d, and would have %d; %s",
		most, what, held, sum, raiseRemedy("Delete slivers of the slice first", key))
}

// maxLimits returns the maximum of every limit, for stored requests.
func maxLimits() Limits {
	var l Limits
	for _, x := range l.fields() {
		*x.value = x.highest
	}
	return l
}

// xml returns the limits for the XML parser.
func (l Limits) xml() xmltree.Limits {
	return xmltree.Limits{
		Bytes: l.Bytes, Depth: l.Depth, Elements: l.Elements, Attrs: l.Attributes,
		Namespaces: l.Namespaces, NamespaceBytes: l.NamespaceBytes,
	}
}

// settable are the keys of the limits that an operator can raise.
var settable = []string{"bytes", "depth", "nodes", "links"}

// raiseRemedy returns the remedy for a value above the limit key. less is the advice for the
// client. If the limit is settable, the text also names the operator's setting.
func raiseRemedy(less, key string) string {
	if !slices.Contains(settable, key) {
		return less
	}
	return less + ", or ask the operator to raise " + limitsKey + key
}

// tooBig returns the problem for a limit of the XML parser that was exceeded.
func tooBig(e *xmltree.LimitError) Problem {
	p := Problem{Kind: TooBig, Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the request has more than %d %s", e.Max, e.Limit)}
	switch e.Limit {
	case "bytes":
		p.Remedy = raiseRemedy("divide it among several slices", "bytes")
	case "elements", "attributes": // these are twice the elements
		p.Remedy = raiseRemedy("divide it among several slices", "elements")
	case "attributes of one element":
		p.Remedy = raiseRemedy("leave some out", "attributes")
	case "namespace declarations in one place":
		p.Remedy = raiseRemedy("declare each namespace once", "namespaces")
	case "bytes in the name of a namespace":
		p.Remedy = raiseRemedy("give it a shorter name", "namespace_bytes")
	default:
		p.Remedy = "nest them less deeply"
		if e.Max < xmltree.HighestLimits().Depth {
			p.Remedy = raiseRemedy(p.Remedy, "depth")
		} else {
			p.Remedy += "; no setting goes further"
		}
	}
	return p
}
