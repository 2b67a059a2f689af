package rspec

import (
	"strconv"

	"patchbay/schemas/xmltree"
)

// Origin is the part of a source in another language that describes a node.
type Origin struct {
	// Language is the language of the source, such as "radl"; empty if the request does not
	// say from what the node was compiled.
	Language string
	// ID is the part's name in the source. Ordinal counts the nodes with this ID in the slice,
	// from 0.
	ID      string
	Ordinal int
}

// readOrigin reads e, a source element of the own node n. The first one without a mistake counts.
func (p *requestParser) readOrigin(e *xmltree.Element, n *Node) {
	o := Origin{Language: trimmed(e, "language"), ID: value(e, "id")}
	ordinal, given := e.Attr("", "ordinal")
	number, err := strconv.ParseUint(trimmed(e, "ordinal"), 10, 31)
	switch {
	case n.Origin.Language != "":
		p.remark(place{e, ""}, n.ClientID, "the first one counts", "node %.80q has several sources", n.ClientID)
	case o.Language == "":
		p.remark(place{e, "language"}, n.ClientID, ignored, "node %.80q has a source without a language", n.ClientID)
	case given && err != nil:
		p.remark(place{e, "ordinal"}, n.ClientID, "write a whole number from 0; "+ignored, "node %.80q has a source with the ordinal %.40q", n.ClientID, ordinal)
	default:
		o.Ordinal = int(number)
		n.Origin = o
	}
}
