package xmltree

import (
	"fmt"
	"path"
	"strings"

	"patchbay/schemas"
)

// grammar finds the attributes and children that an element may have, for messages. It
// supports only the part of XML Schema that the embedded schemas use.
type grammar struct {
	// declared has the global declarations by kind ("element", "complexType", "group",
	// "attributeGroup") and name.
	declared map[string]map[Name]declaration
}

// declaration has its file's target namespace. A file without one has the target namespace of
// the including file.
type declaration struct {
	*Element
	space string
}

// readGrammar reads the declarations of a schema file, and of all included and imported files.
func readGrammar(file string) (*grammar, error) {
	g := &grammar{make(map[string]map[Name]declaration)}
	if err := g.read(file, "", make(map[Name]bool)); err != nil {
		return nil, fmt.Errorf("cannot read the schema %s: %w", file, err)
	}
	return g, nil
}

// read adds the declarations of a file; space is the target namespace of the including file.
// The parameter visited has the files that were read before, each with its target namespace.
func (g *grammar) read(file, space string, visited map[Name]bool) error {
	text, err := schemas.Read(file)
	if err != nil {
		return err
	}
	return Parse(text, Limits{}, func(d *Doc) error {
		if target, given := d.Root.Attr("", "targetNamespace"); given {
			space = target
		}
		if at := (Name{space, file}); visited[at] {
			return nil
		} else {
			visited[at] = true
		}
		for _, e := range d.Root.Elements() {
			if location, given := e.Attr("", "schemaLocation"); given {
				in := space
				if e.Local == "import" {
					in = ""
				}
				if err := g.read(path.Join(path.Dir(file), location), in, visited); err != nil {
					return err
				}
				continue
			}
			name, _ := e.Attr("", "name")
			if g.declared[e.Local] == nil {
				g.declared[e.Local] = make(map[Name]declaration)
			}
			g.declared[e.Local][Name{space, name}] = declaration{e, space}
		}
		return nil
	})
}

// resolve returns the global declaration of the given kind to which d refers. The parameter
// attribute is the attribute of d with the reference: "ref" or "type". The embedded schemas
// refer only to their own namespace, without a prefix.
func (g *grammar) resolve(kind string, d declaration, attribute string) (declaration, bool) {
	name, given := d.Attr("", attribute)
	if !given || strings.Contains(name, ":") {
		return declaration{}, false
	}
	to, ok := g.declared[kind][Name{d.space, name}]
	return to, ok
}

// declarationOf searches the declaration of e's parent first, then the global declarations.
func (g *grammar) declarationOf(e *Element) (declaration, bool) {
	if e.Parent != nil {
		if parent, ok := g.declarationOf(e.Parent); ok {
			known, _ := g.children(parent)
			for _, c := range known {
				if c.space == e.Space && c.name() == e.Local {
					return c, true
				}
			}
		}
	}
	d, ok := g.declared["element"][e.Name]
	return d, ok
}

func (d declaration) name() string {
	name, _ := d.Attr("", "name")
	return name
}

func (g *grammar) complexTypeOf(d declaration) (declaration, bool) {
	for _, c := range d.Elements() {
		if c.Local == "complexType" {
			return declaration{c, d.space}, true
		}
	}
	return g.resolve("complexType", d, "type")
}

// children returns the declarations of the children that d allows. The result foreign reports
// whether children of other namespaces are allowed, too.
func (g *grammar) children(d declaration) (found []declaration, foreign bool) {
	var walk func(d declaration)
	walk = func(d declaration) {
		for _, c := range d.Elements() {
			c := declaration{c, d.space}
			switch c.Local {
			case "element":
				if to, ok := g.resolve("element", c, "ref"); ok {
					c = to
				}
				found = append(found, c)
			case "group":
				if to, ok := g.resolve("group", c, "ref"); ok {
					walk(to)
				}
			case "sequence", "choice":
				walk(c)
			case "any":
				foreign = true
			}
		}
	}
	if t, ok := g.complexTypeOf(d); ok {
		walk(t)
	}
	return found, foreign
}

// attributes returns the names of the attributes that d allows, required ones first.
func (g *grammar) attributes(d declaration) []string {
	var required, optional []string
	var walk func(d declaration)
	walk = func(d declaration) {
		for _, c := range d.Elements() {
			c := declaration{c, d.space}
			switch c.Local {
			case "attribute":
				if use, _ := c.Attr("", "use"); use == "required" {
					required = append(required, c.name())
				} else {
					optional = append(optional, c.name())
				}
			case "simpleContent", "extension":
				walk(c)
			case "attributeGroup":
				if to, ok := g.resolve("attributeGroup", c, "ref"); ok {
					walk(to)
				}
			}
		}
	}
	if t, ok := g.complexTypeOf(d); ok {
		walk(t)
	}
	return append(required, optional...)
}
