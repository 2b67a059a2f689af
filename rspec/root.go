package rspec

import (
	"maps"
	"slices"
	"strconv"

	"patchbay/schemas/xmltree"
)

// commonRoot is the start tag of a union's root: the first part's, and what it
// takes over from the roots of the others.
type commonRoot struct {
	// spaces are what prefixes mean under the common root; declared are those of
	// them that the first part's root does not declare itself.
	spaces   map[string]string
	declared []string
	own      int // attributes and declarations of the first part's root
	// has are the attributes by expanded name; added are those of them that the
	// first part's root does not have.
	has   map[xmltree.Name]string
	added []rawAttribute
	// pairs are the schema locations of the parts behind the first.
	pairs []pair
}

// rawAttribute is an attribute with its value as it is written, in its quotes.
type rawAttribute struct{ prefix, local, quoted string }

// fullRoot is how many attributes and declarations the common root may have and
// take over one more: with those that every manifest tells, it can be read again
// under the limits of a request (xmltree.Limits.Attrs).
const fullRoot = 90

// inheritable are the xml: attributes that hold for what is inside an element.
var inheritable = []string{"base", "lang", "space"}

func newCommonRoot(s *splices) commonRoot {
	root := s.doc.elements[0]
	c := commonRoot{spaces: maps.Clone(s.doc.rootSpaces), own: len(s.doc.rootSpaces) + len(root.Attrs), has: map[xmltree.Name]string{}}
	for _, a := range root.Attrs {
		c.has[a.Name] = a.Value
	}
	return c
}

func (c *commonRoot) full() bool { return c.own+len(c.declared)+len(c.added) >= fullRoot }

// take takes over what it can of another root. It returns the prefixes that its
// children must declare themselves, and the attributes that they must be given.
func (c *commonRoot) take(s *splices) (conflicts map[string]bool, given []rawAttribute) {
	conflicts = c.merge(s.doc.rootSpaces)
	root := s.startTag(s.doc.elements[0])
	for _, a := range root.list {
		if a.of == nil {
			continue
		}
		switch name := a.of.Name; {
		case name.Space == "" && isRootFact(name.Local), name.Space == xmlSpace && slices.Contains(inheritable, name.Local):
		case name.Space == xsiSpace && name.Local == "schemaLocation":
			c.pairs = append(c.pairs, pairsOf(string(s.doc.src[a.from:a.to]))...)
		default:
			c.adopt(a.of, s.doc.quoted(a))
		}
	}
	for _, local := range inheritable {
		common, inCommon := c.has[xmltree.Name{Space: xmlSpace, Local: local}]
		a, inPart := root.find(xmlSpace, local)
		switch {
		case inPart && !(inCommon && common == a.of.Value):
			given = append(given, rawAttribute{"xml", local, s.doc.quoted(a)})
		case !inPart && inCommon && local == "lang":
			given = append(given, rawAttribute{"xml", local, `""`}) // no language
		case !inPart && inCommon && local == "space":
			given = append(given, rawAttribute{"xml", local, `"default"`})
		}
	}
	return conflicts, given
}

// isRootFact tells which attributes of a root are the manifest's to tell.
func isRootFact(local string) bool {
	switch local {
	case "type", "generated", "generated_by", "expires":
		return true
	}
	return false
}

// merge takes the declarations of another root up where the prefix is free. It
// returns the prefixes that mean something else, or found no room.
func (c *commonRoot) merge(spaces map[string]string) (conflicts map[string]bool) {
	conflicts = map[string]bool{}
	for _, prefix := range slices.Sorted(maps.Keys(spaces)) {
		was, taken := c.spaces[prefix]
		switch {
		case prefix == "":
		case !taken && !c.full():
			c.declare(prefix, spaces[prefix])
		case !taken || was != spaces[prefix]:
			conflicts[prefix] = true
		}
	}
	if spaces[""] != c.spaces[""] {
		conflicts[""] = true
	}
	return conflicts
}

func (c *commonRoot) declare(prefix, space string) {
	c.spaces[prefix] = space
	c.declared = append(c.declared, prefix)
}

// adopt takes an attribute of another root over, unless there is one of its name.
func (c *commonRoot) adopt(a *xmltree.Attr, quoted string) {
	if _, taken := c.has[a.Name]; taken || c.full() {
		return
	}
	prefix := a.Prefix
	if prefix != "" && prefix != "xml" && c.spaces[prefix] != a.Space {
		prefix = prefixFor(c.spaces, a.Space, a.Prefix)
		if c.spaces[prefix] == "" {
			c.declare(prefix, a.Space)
		}
	}
	c.has[a.Name] = a.Value
	c.added = append(c.added, rawAttribute{prefix, a.Local, quoted})
}

// write edits the start tag of the common root.
func (c *commonRoot) write(s *splices, o ManifestOptions, extensions []pair) {
	t := s.startTag(s.doc.elements[0])
	t.set("type", "manifest")
	for _, a := range rootAttributes(o) {
		if a.value == "" {
			t.drop(a.name)
		} else {
			t.set(a.name, a.value)
		}
	}
	for _, prefix := range c.declared {
		t.add(declaration(prefix), escape(c.spaces[prefix]))
	}
	for _, a := range c.added {
		name := a.local
		if a.prefix != "" {
			name = a.prefix + ":" + name
		}
		t.addRaw(name, a.quoted)
	}
	add := slices.Concat(c.pairs, extensions)
	if a, found := t.find(xsiSpace, "schemaLocation"); found {
		was := string(t.doc.src[a.from:a.to])
		if is := manifestLocations(was, add); is != was {
			t.replace(a.from, a.to, is)
		}
		return
	}
	prefix := prefixFor(c.spaces, xsiSpace, "xsi")
	if c.spaces[prefix] == "" {
		t.add(declaration(prefix), xsiSpace)
	}
	t.add(prefix+":schemaLocation", manifestLocations(Namespace+" "+ManifestSchema, add))
}

// prefixFor is a prefix that is bound to a namespace, or else one that is free,
// like the one wished.
func prefixFor(spaces map[string]string, space, wish string) string {
	var bound []string
	for prefix, uri := range spaces {
		if uri == space && prefix != "" {
			bound = append(bound, prefix)
		}
	}
	if len(bound) > 0 {
		return slices.Min(bound)
	}
	prefix := wish
	for n := 1; spaces[prefix] != ""; n++ {
		prefix = wish + strconv.Itoa(n)
	}
	return prefix
}
