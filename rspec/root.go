package rspec

import (
	"maps"
	"slices"
	"strconv"

	"patchbay/schemas/xmltree"
)

// commonRoot is the start tag of a union's root: that of the first part, with additions from
// the other roots.
type commonRoot struct {
	// spaces has namespaces by prefix. declared lists the prefixes that the first part's root
	// does not declare.
	spaces   map[string]string
	declared []string
	own      int // attributes and declarations of the first part's root
	// attributes has the values of all attributes. added lists the attributes that the first
	// part's root does not have.
	attributes map[xmltree.Name]string
	added      []rawAttribute
	// pairs are the schema locations of the other parts.
	pairs []pair
}

type rawAttribute struct{ prefix, local, quoted string }

// maxRootAttributes limits the attributes and declarations of the common root. A manifest adds
// further ones to the root. All together must not exceed xmltree.Limits.Attrs, so that a
// client can send the manifest again as a request.
const maxRootAttributes = 90

// inheritable are the xml: attributes that apply to an element's content.
var inheritable = []string{"base", "lang", "space"}

func newCommonRoot(s *splices) commonRoot {
	root := s.doc.elements[0]
	c := commonRoot{spaces: maps.Clone(s.doc.rootSpaces), own: len(s.doc.rootSpaces) + len(root.Attrs), attributes: map[xmltree.Name]string{}}
	for _, a := range root.Attrs {
		c.attributes[a.Name] = a.Value
	}
	return c
}

func (c *commonRoot) isFull() bool { return c.own+len(c.declared)+len(c.added) >= maxRootAttributes }

// merge adds the declarations and attributes of another root whose names are free in the
// common root. The children of the other root must declare the prefixes in conflicts
// themselves. They also get the xml: attributes in attrs.
func (c *commonRoot) merge(s *splices) (conflicts map[string]bool, attrs []rawAttribute) {
	conflicts = c.mergeSpaces(s.doc.rootSpaces)
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
			c.addAttribute(a.of, s.doc.quoted(a))
		}
	}
	for _, local := range inheritable {
		common, inCommon := c.attributes[xmltree.Name{Space: xmlSpace, Local: local}]
		a, inPart := root.find(xmlSpace, local)
		switch {
		case inPart && !(inCommon && common == a.of.Value):
			attrs = append(attrs, rawAttribute{"xml", local, s.doc.quoted(a)})
		case !inPart && inCommon && local == "lang":
			attrs = append(attrs, rawAttribute{"xml", local, `""`}) // xml:lang="" means no language
		case !inPart && inCommon && local == "space":
			attrs = append(attrs, rawAttribute{"xml", local, `"default"`})
		}
	}
	return conflicts, attrs
}

func isRootFact(local string) bool {
	switch local {
	case "type", "generated", "generated_by", "expires":
		return true
	}
	return false
}

// mergeSpaces declares the prefixes of another root on the common root. It returns the prefixes for which this is
// not possible: the common root has no room, or another namespace for the prefix.
func (c *commonRoot) mergeSpaces(spaces map[string]string) (conflicts map[string]bool) {
	conflicts = map[string]bool{}
	for _, prefix := range slices.Sorted(maps.Keys(spaces)) {
		was, taken := c.spaces[prefix]
		switch {
		case prefix == "":
		case !taken && !c.isFull():
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

// addAttribute adds an attribute of another root, unless the common root has one of its name or no room. The
// prefix may change, so that it means the attribute's namespace in the common root.
func (c *commonRoot) addAttribute(a *xmltree.Attr, quoted string) {
	if _, taken := c.attributes[a.Name]; taken || c.isFull() {
		return
	}
	prefix := a.Prefix
	if prefix != "" && prefix != "xml" && c.spaces[prefix] != a.Space {
		prefix = prefixFor(c.spaces, a.Space, a.Prefix)
		if c.spaces[prefix] == "" {
			c.declare(prefix, a.Space)
		}
	}
	c.attributes[a.Name] = a.Value
	c.added = append(c.added, rawAttribute{prefix, a.Local, quoted})
}

// write writes the root's start tag into s, the edits of the first part: the facts of the manifest, what other
// roots added, and the schema locations with those of the extensions.
func (c *commonRoot) write(s *splices, o ManifestOptions, extensions []pair) {
	t := s.startTag(s.doc.elements[0])
	t.set("type", "manifest")
	for _, a := range rootAttributes(o) {
		if a.value == "" {
			t.drop("", a.name)
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

// prefixFor returns a prefix of the namespace space. If there is none, it returns a free
// prefix: the preferred one, or the preferred one with a number.
func prefixFor(spaces map[string]string, space, preferred string) string {
	var bound []string
	for prefix, uri := range spaces {
		if uri == space && prefix != "" {
			bound = append(bound, prefix)
		}
	}
	if len(bound) > 0 {
		return slices.Min(bound)
	}
	prefix := preferred
	for n := 1; spaces[prefix] != ""; n++ {
		prefix = preferred + strconv.Itoa(n)
	}
	return prefix
}
