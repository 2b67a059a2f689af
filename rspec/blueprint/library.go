package blueprint

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec/match"
	"patchbay/schemas/yamlfile"
)

//go:embed library/*.yaml
var standard embed.FS

// Forms of components.
const (
	isNode     = "node"
	isGroup    = "group"    // nodes alike, with a LAN
	isSoftware = "software" // on nodes of other components
	isNetwork  = "network"
)

// Effects of requirements.
const (
	byMatch    = "match"
	bySetup    = "setup"
	byRelation = "relation"
	byPolicy   = "policy"
)

// Library has the types of components and requirements.
type Library struct {
	components   []*componentType
	requirements []*requirementType
}

type componentType struct {
	name, extends, description string
	abstract                   bool
	form, defaultRequirement   string
	aliases                    []string
	offers, requirements       []string
	attributes                 []attribute
	sliverType, image          string
	hardwareType               string
	actions                    []action
	line                       int
	parent                     *componentType
}

type requirementType struct {
	name, extends, description string
	effect, scope, defaultName string
	needs                      string // the capability that targets offer
	feature                    string
	op                         match.Op
	aliases                    []string
	attributes                 []attribute
	fixed                      []attribute // an attribute may have this value; another one has no effect
	environment, host          bool
	hasPorts                   bool // it is the standard loadbalancer or extends it
	actions                    []action
	line                       int
}

// balancer is the requirement whose attributes publicPort and membersPort are ports.
const balancer = "loadbalancer"

// attribute is an attribute with the value that it has if none is given.
type attribute struct{ name, value string }

type action struct {
	name, operation, script string
	content                 string // run, unpack, copy or load
	onTarget                bool
}

// Standard returns the library without an operator's types.
func Standard() *Library { return standardLibrary() }

var standardLibrary = sync.OnceValue(func() *Library {
	const name = "library/standard.yaml"
	text, err := standard.ReadFile(name)
	if err != nil {
		panic("blueprint: " + err.Error())
	}
	l, err := (&Library{}).with(text, name)
	if err != nil {
		panic("blueprint: " + err.Error())
	}
	return l
})

// LoadLibrary returns the standard library with the types in the *.yaml files of a folder. It
// fails with all mistakes in these files.
func LoadLibrary(dir string) (*Library, error) {
	names, err := fs.Glob(os.DirFS(dir), "*.yaml") // filepath.Glob would interpret the name of the folder
	if err != nil {
		return nil, err
	}
	l := Standard()
	var all []error
	for _, name := range names {
		name = filepath.Join(dir, name)
		text, err := yamlfile.Load(name, maxText)
		if err == nil {
			l, err = l.with(text, name)
		}
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return l, nil
}

// Describe returns a sentence for each type that is not in the standard library.
func (l *Library) Describe() (list []string) {
	standard := Standard()
	for _, t := range l.components[len(standard.components):] {
		form := cmp.Or(t.form, "abstract, without a form of its own")
		s := fmt.Sprintf("component %s (%s): %s", t.name, form, cmp.Or(t.description, "no description"))
		if t.extends != "" {
			s += "; extends " + t.extends
		}
		list = append(list, s+"; offers "+yamlfile.Few(t.offers)+"; knows the requirements "+yamlfile.Few(t.requirements))
	}
	for _, t := range l.requirements[len(standard.requirements):] {
		s := fmt.Sprintf("requirement %s (%s): %s", t.name, t.effect, cmp.Or(t.description, "no description"))
		if t.needs != "" {
			s += "; fulfilled by components that offer " + t.needs
		}
		list = append(list, s)
	}
	return list
}

// with returns the library with the types of a file. It returns l itself with an error.
func (l *Library) with(text []byte, name string) (*Library, error) {
	r := &libraryReader{Reader: yamlfile.Reader{File: name}, l: &Library{slices.Clone(l.components), slices.Clone(l.requirements)}}
	if document := r.Document(text); document != nil && !yamlfile.IsNull(document.Content[0]) {
		r.Fields(document.Content[0], "a library", []string{"components", "requirements"}, func(key string, n *yaml.Node) {
			for _, item := range r.Items(n, key) {
				if key == "components" {
					r.component(item)
				} else {
					r.requirement(item)
				}
			}
		})
		r.check()
	}
	if err := r.Err(); err != nil {
		return l, err
	}
	return r.l, nil
}

type libraryReader struct {
	yamlfile.Reader
	l *Library
}

func (r *libraryReader) texts(n *yaml.Node, label string) (list []string) {
	for _, t := range r.Texts(n, label) {
		list = append(list, t.Value)
	}
	return list
}

func (r *libraryReader) isTrue(n *yaml.Node, label string) bool {
	return yamlfile.Choice(&r.Reader, n, label, "true", "false") == "true"
}

// component reads a component type, and adds it to the library, with what it inherits from the type that it
// extends.
func (r *libraryReader) component(n *yaml.Node) {
	t := &componentType{line: n.Line}
	r.Keys(n, "a component type",
		yamlfile.Into("name", &t.name, r.Text),
		yamlfile.Into("aliases", &t.aliases, r.texts),
		yamlfile.Into("extends", &t.extends, r.Text),
		yamlfile.Into("description", &t.description, r.Text),
		yamlfile.Into("abstract", &t.abstract, r.isTrue),
		yamlfile.OneOf(&r.Reader, "form", &t.form, isNode, isGroup, isSoftware, isNetwork),
		yamlfile.Into("offers", &t.offers, r.texts),
		yamlfile.Into("requirements", &t.requirements, r.texts),
		yamlfile.With("attributes", func(n *yaml.Node) { t.attributes = r.attributes(n) }),
		yamlfile.Into("default_requirement", &t.defaultRequirement, r.Text),
		yamlfile.Into("sliver_type", &t.sliverType, r.Text),
		yamlfile.Into("image", &t.image, r.Text),
		yamlfile.Into("hardware_type", &t.hardwareType, r.Text),
		yamlfile.With("actions", func(n *yaml.Node) { t.actions = r.actions(n) }),
	)
	if t.name == "" {
		r.Missing(n, "a component type", "name")
		return
	}
	for _, name := range append([]string{t.name}, t.aliases...) {
		if r.l.component(name) != nil {
			r.Wrong(n, "the component type %.80q exists already; rename it", name)
			return
		}
	}
	if t.extends != "" {
		if t.parent = r.l.component(t.extends); t.parent == nil {
			r.Wrong(n, "component type %.80q extends %.80q, which is not defined before; %s", t.name, t.extends, unknown(t.extends, r.l.componentNames()))
		} else {
			t.inherit(t.parent)
		}
	}
	r.l.components = append(r.l.components, t)
}

// inherit adds to t what it does not state itself. Lists begin with the items of from, except attributes.
func (t *componentType) inherit(from *componentType) {
	if t.form == "" {
		t.form = from.form
	}
	for _, s := range []struct{ to, from *string }{
		{&t.description, &from.description}, {&t.defaultRequirement, &from.defaultRequirement}, {&t.sliverType, &from.sliverType}, {&t.image, &from.image}, {&t.hardwareType, &from.hardwareType},
	} {
		if *s.to == "" {
			*s.to = *s.from
		}
	}
	t.offers = append(slices.Clone(from.offers), t.offers...)
	t.requirements = append(slices.Clone(from.requirements), t.requirements...)
	t.attributes = withInherited(t.attributes, from.attributes)
	t.actions = append(slices.Clone(from.actions), t.actions...)
}

// withInherited returns the own attributes, and those of from whose names are not among them.
func withInherited(own, from []attribute) []attribute {
	list := slices.Clone(own)
	for _, a := range from {
		if !slices.ContainsFunc(own, func(b attribute) bool { return a.name == b.name }) {
			list = append(list, a)
		}
	}
	return list
}

func (r *libraryReader) attributes(n *yaml.Node) (list []attribute) {
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, "attributes must be a map of names and defaults; write {} for none")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if r.Key(n.Content[i], "attributes") {
			list = append(list, attribute{n.Content[i].Value, n.Content[i+1].Value})
		}
	}
	return list
}

func (r *libraryReader) actions(n *yaml.Node) (list []action) {
	for _, item := range r.Items(n, "actions") {
		var a action
		r.Keys(item, "an action",
			yamlfile.Into("name", &a.name, r.Text),
			yamlfile.OneOf(&r.Reader, "operation", &a.operation, "configure", "install", "start", "stop", "uninstall"),
			yamlfile.With("script", func(n *yaml.Node) { a.script = n.Value }),
			yamlfile.OneOf(&r.Reader, "content", &a.content, "run", "unpack", "copy", "load"),
			yamlfile.With("on", func(n *yaml.Node) { a.onTarget = yamlfile.Choice(&r.Reader, n, "on", "source", "target") == "target" }),
		)
		if (a.script == "") == (a.content == "") {
			r.Wrong(item, "an action has either a script or content; give one of both")
		}
		list = append(list, a)
	}
	return list
}

// requirement reads a requirement type, and adds it to the library. It reads the key extends first, wherever it
// is, because the other keys change what the type inherits.
func (r *libraryReader) requirement(n *yaml.Node) {
	n = yamlfile.Deref(n)
	t := &requirementType{line: n.Line, op: match.Equal, scope: "component"}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "extends" {
			r.extend(t, yamlfile.Deref(n.Content[i+1]))
		}
	}
	r.Keys(n, "a requirement type",
		yamlfile.Into("name", &t.name, r.Text),
		yamlfile.Into("aliases", &t.aliases, r.texts),
		yamlfile.With("extends", func(*yaml.Node) {}), // read above
		yamlfile.Into("description", &t.description, r.Text),
		yamlfile.OneOf(&r.Reader, "effect", &t.effect, byMatch, bySetup, byRelation, byPolicy),
		yamlfile.OneOf(&r.Reader, "scope", &t.scope, "component", "global"),
		yamlfile.Into("default", &t.defaultName, r.Text),
		yamlfile.Into("needs", &t.needs, r.Text),
		yamlfile.Into("feature", &t.feature, r.Text),
		yamlfile.OneOf(&r.Reader, "op", &t.op, match.Ops...),
		yamlfile.With("attributes", func(n *yaml.Node) { t.attributes = withInherited(r.attributes(n), t.attributes) }),
		yamlfile.With("fixed", func(n *yaml.Node) { t.fixed = r.attributes(n) }),
		yamlfile.Into("environment", &t.environment, r.isTrue),
		yamlfile.Into("host", &t.host, r.isTrue),
		yamlfile.With("actions", func(n *yaml.Node) { t.actions = append(t.actions, r.actions(n)...) }),
	)
	t.hasPorts = t.hasPorts || t.name == balancer
	switch {
	case t.name == "":
		r.Missing(n, "a requirement type", "name")
	case t.effect == "":
		r.Missing(n, "requirement type "+t.name, "effect")
	case t.effect == byMatch && t.feature == "":
		r.Missing(n, "requirement type "+t.name, "feature")
	case slices.ContainsFunc(append([]string{t.name}, t.aliases...), func(name string) bool { return r.l.requirement(name) != nil }):
		r.Wrong(n, "the requirement type %.80q, or an alias of it, exists already; rename it", t.name)
	default:
		r.l.requirements = append(r.l.requirements, t)
	}
}

// extend gives t what it inherits from the type that n names.
func (r *libraryReader) extend(t *requirementType, n *yaml.Node) {
	base := r.l.requirement(n.Value)
	if base == nil {
		r.Wrong(n, "there is no requirement type %.80q before; %s", n.Value, unknown(n.Value, r.l.requirementNames()))
		return
	}
	line := t.line
	*t = *base
	t.name, t.aliases, t.extends, t.line, t.actions = "", nil, base.name, line, slices.Clone(base.actions)
}

// check finds names of requirements that are not defined.
func (r *libraryReader) check() {
	for _, t := range r.l.components {
		for _, name := range append(slices.Clone(t.requirements), t.defaultRequirement) {
			if name != "" && r.l.requirement(name) == nil {
				r.Wrong(&yaml.Node{Line: t.line}, "component type %.80q: there is no requirement type %.80q; %s", t.name, name, unknown(name, r.l.requirementNames()))
			}
		}
	}
}

// typeName returns the form in which names of types are compared: com.example:Y becomes com.example.Y, and A::B::C
// stays.
func typeName(name string) string {
	if strings.Contains(name, "::") {
		return name
	}
	return strings.Replace(name, ":", ".", 1)
}

func (l *Library) component(name string) *componentType {
	for _, t := range l.components {
		if isNamed(name, t.name, t.aliases) {
			return t
		}
	}
	return nil
}

func isNamed(name, own string, aliases []string) bool {
	return typeName(name) == typeName(own) || slices.ContainsFunc(aliases, func(alias string) bool { return typeName(name) == typeName(alias) })
}

func (l *Library) requirement(name string) *requirementType {
	for _, t := range l.requirements {
		if isNamed(name, t.name, t.aliases) {
			return t
		}
	}
	return nil
}

func (l *Library) componentNames() (list []string) {
	for _, t := range l.components {
		list = append(list, t.name)
	}
	return list
}

func (l *Library) requirementNames() (list []string) {
	for _, t := range l.requirements {
		list = append(list, t.name)
	}
	return list
}

// is reports whether t is the type with this name or a sub-type of it.
func (t *componentType) is(name string) bool {
	for ; t != nil; t = t.parent {
		if t.name == name {
			return true
		}
	}
	return false
}
