package rspec

import (
	"fmt"
	"slices"

	"patchbay/schemas/xmltree"
)

// Limits are the limits of a request; a request that exceeds one is refused as TooBig.
// Bytes and Elements also limit all requests of a slice together (SliceTooBig). Operators
// can set the fields that have a yaml key. A zero field means the default.
type Limits struct {
	// Bytes is the size of the document; default 8 MiB, maximum 1 GiB.
	Bytes int `yaml:"bytes"`
	// Depth is the nesting of elements, where the root has depth 1; default and
	// maximum 240, because libxml2 fails slightly above this depth.
	Depth int `yaml:"depth"`
	// Elements counts elements, comments, processing instructions and CDATA
	// sections together; default 200,000. A document may have at most twice as many
	// attributes.
	Elements int
	// Attributes is the number of attributes and namespace declarations of one
	// element; default 100, maximum 10,000.
	Attributes int
	// Namespaces is the number of namespace declarations on an element and all
	// elements around it; default 250, maximum 10,000.
	Namespaces int
	// NamespaceBytes is the length of a namespace name as written; default 1024
	// bytes. Each element that uses the name takes so much memory.
	NamespaceBytes int
	// Nodes and Links count the nodes and links of all aggregates; default 10,000
	// each.
	Nodes int `yaml:"nodes"`
	Links int `yaml:"links"`
	// Interfaces counts the interfaces of all nodes together; default 50,000.
	Interfaces int
	// ClientID is the length in bytes of a client_id of this aggregate's nodes,
	// interfaces and links; default 256.
	ClientID int
	// Addresses is the number of addresses that one interface of an own node may
	// request; default 64.
	Addresses int
	// Services is the number of steps of one own node, such as installs and executes; and the
	// number of parameters of one step or node, and of files of one script; default 200.
	Services int
	// Command is the length in bytes of the command of an execute, of the url of an
	// install, of a script and of a parameter; default 64 KiB, maximum 100 KiB, because
	// Linux accepts no longer argument.
	Command int
}

// Large is the size in bytes of a large request. Only few large requests should be read at
// the same time, because reading a request takes up to ninety times as much memory as the
// request's size.
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

const limitsKey = "limits.rspec."

type limit struct {
	key     string
	value   *int
	highest int
}

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

// Validate calls report for each field that is negative or above its maximum; key is the
// field's key in a site's configuration.
func (l Limits) Validate(report func(key, format string, args ...any)) {
	for _, x := range l.fields() {
		if *x.value < 0 || *x.value > x.highest {
			report(limitsKey+x.key, "%d is not possible; give a number from 1 to %d, or leave it out", *x.value, x.highest)
		}
	}
}

// withDefaults replaces zero and negative fields by the defaults, and reduces larger fields to the maxima.
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

// SliceTooBig returns the text of a refusal if all requests of a slice together would have too
// many bytes or elements, or else "". The parameters bytes and elements are the sums with the
// new request; heldBytes and heldElements are the sums without it.
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
	return fmt.Sprintf("the requests of one slice may have %d %s together; the requests of this slice have %d, and with the new request they would have %d; %s",
		most, what, held, sum, raiseRemedy("Delete slivers of the slice first", key))
}

// maxLimits are the limits for a stored request.
func maxLimits() Limits {
	var l Limits
	for _, x := range l.fields() {
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

// settable are the keys of limits that an operator can raise.
var settable = []string{"bytes", "depth", "nodes", "links"}

// raiseRemedy appends the operator's setting to the advice for the client, if the limit is
// settable.
func raiseRemedy(advice, key string) string {
	if !slices.Contains(settable, key) {
		return advice
	}
	return advice + "; operators can raise " + limitsKey + key + " in patchbay.yaml"
}

func tooBig(e *xmltree.LimitError) Problem {
	p := Problem{Kind: TooBig, Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the request has more than %d %s", e.Max, e.Limit)}
	switch e.Limit {
	case "bytes":
		p.Remedy = raiseRemedy("divide it among several slices", "bytes")
	case "elements", "attributes": // the limit of attributes is twice the limit of elements
		p.Remedy = raiseRemedy("divide it among several slices", "elements")
	case "attributes of one element":
		p.Remedy = raiseRemedy("leave some out", "attributes")
	case "namespace declarations in scope":
		p.Remedy = raiseRemedy("declare each namespace once", "namespaces")
	case "bytes in the name of a namespace":
		p.Remedy = raiseRemedy("give it a shorter name", "namespace_bytes")
	default:
		p.Remedy = "nest them less deeply"
		if e.Max < xmltree.HighestLimits().Depth {
			p.Remedy = raiseRemedy(p.Remedy, "depth")
		} else {
			p.Remedy += "; no setting allows more"
		}
	}
	return p
}
