package rspec

import (
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/schemas/xmltree"
)

// extension has the names of one of our extensions.
type extension struct {
	prefix, space string
	// elements are names that are easily written in the wrong namespace.
	elements []string
}

var (
	setupExtension = extension{"setup", setupSpace, []string{"step", "parameter", "userdata", "disk", "relation"}}
	netExtension   = extension{"net", netSpace, slices.Concat(interfaceWishes, nodeWishes, linkWishes)}
)

// ownSpaces are the namespaces of our extensions.
var ownSpaces = []string{setupSpace, matchSpace, netSpace, originSpace, scheduleSpace, templateSpace}

// remarkForeign adds a remark on e if it looks like an element of one of our extensions, but is none: it has a
// name of x without its namespace, or a namespace like ours. x is the extension whose elements are allowed here.
func (p *requestParser) remarkForeign(e *xmltree.Element, x *extension) {
	switch {
	case e.Space == Namespace && slices.Contains(x.elements, e.Local):
		p.remark(place{e, ""}, "", "write <"+x.prefix+":"+e.Local+"> and xmlns:"+x.prefix+`="`+x.space+`"; `+ignored, "<%.40s> has no prefix", e.Local)
	case isMisspelledSpace(e.Space):
		p.remark(place{e, ""}, "", "use "+similarSpace(e.Space, x)+"; "+ignored, "<%.40s> is in the unknown namespace %.80q", e.Local, e.Space)
	}
}

// isMisspelledSpace reports whether a namespace begins like those of our extensions.
func isMisspelledSpace(space string) bool {
	return strings.HasPrefix(space, ExtensionBase) && !slices.Contains(ownSpaces, space)
}

// similarSpace returns the most similar namespace of our extensions, or else that of x.
func similarSpace(space string, x *extension) string {
	var names []string // without the common beginning, which would hide the differences
	for _, s := range ownSpaces {
		names = append(names, strings.TrimPrefix(s, ExtensionBase))
	}
	if name := display.Suggest(strings.TrimPrefix(space, ExtensionBase), names); name != "" {
		return ExtensionBase + name
	}
	return x.space
}
