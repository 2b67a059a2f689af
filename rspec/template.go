package rspec

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"patchbay/schemas/xmltree"
)

// Template is a source in another language, in a request for this aggregate.
type Template struct {
	// Language is the name of the language, such as "radl".
	Language string
	Text     []byte
	// Parameters are values for names in the source.
	Parameters map[string]string
	// Line and Column are the start of the template in the request, counted from 1.
	Line, Column int

	element int
}

// Expansion is the result of compiling a Template.
type Expansion struct {
	// Request is a request RSpec.
	Request []byte
	// Source is the source without secrets. If it differs from the Template's Text, it contains
	// the values of the parameters.
	Source []byte
	// Remarks have places in the source.
	Remarks []Problem
	// Nodes and Links are the client_ids of the nodes and links in Request.
	Nodes, Links []string
}

const (
	// maxTemplates limits the templates of one request.
	maxTemplates = 10
	// MaxTemplate limits the source of one template, in bytes.
	MaxTemplate = 256 << 10
)

// Request returns a request that has only the template, for the aggregate with the URN manager.
func (t Template) Request(manager string) []byte {
	text := fmt.Appendf(nil, `<rspec type="request" xmlns="%s"><source xmlns="%s" language="%s" component_manager_id="%s">`, Namespace, templateSpace, escape(t.Language), escape(manager))
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		text = fmt.Appendf(text, `<parameter name="%s" value="%s"/>`, escape(name), escape(t.Parameters[name]))
	}
	return fmt.Appendf(text, "%s</source></rspec>\n", base64.StdEncoding.EncodeToString(t.Text))
}

// readTemplate reads e, a template:source below the root. It refuses mistakes only in templates
// that this aggregate must expand. If no aggregate is known, these are all that name one.
func (p *requestParser) readTemplate(e *xmltree.Element) {
	manager, isExpanded := trimmed(e, "component_manager_id"), false
	if text, given := e.Attr("", "expanded"); given {
		isExpanded, _ = boolean(text)
	}
	us, isURN := p.isThisAggregate(manager)
	switch {
	case isExpanded && us:
		if t := p.templateOf(e); t != nil {
			p.r.Expanded = append(p.r.Expanded, *t)
		}
	case isExpanded:
	case manager == "":
		p.badArgs(place{e, ""}, "", "add component_manager_id="+p.exampleManager(), "the request has a template that names no aggregate, which would compile it")
	case !isURN:
		p.remark(place{e, "component_manager_id"}, "", ignored, "the request has a template for an aggregate that is no URN, %.80q", manager)
	case !us && len(p.o.Managers) > 0:
		p.remark(place{e, ""}, "", "if it has passwords, send it to that aggregate first, and then the manifest to this one", "the request has a template for another aggregate, which is copied as it is")
	case len(p.r.Templates) == maxTemplates:
		p.refuse(TooBig, place{e, ""}, "", "put several into one", "the request has more than %d templates", maxTemplates)
	default:
		if t := p.templateOf(e); t != nil {
			p.r.Templates = append(p.r.Templates, *t)
		}
	}
}

func (p *requestParser) exampleManager() string {
	if len(p.o.Managers) == 0 {
		return "the URN of the aggregate that must compile it"
	}
	return fmt.Sprintf("%q", p.o.Managers[0])
}

// templateOf reads e, a template:source. It returns nil for a template with a mistake, which it has recorded.
func (p *requestParser) templateOf(e *xmltree.Element) *Template {
	t := &Template{Language: trimmed(e, "language"), Parameters: map[string]string{}, element: e.Index}
	before := len(p.problems.list)
	if t.Language == "" {
		p.badArgs(place{e, "language"}, "", "name it, such as language=\"radl\"", "the request has a template without a language")
	}
	size := 0
	for c := range childElements(e) {
		if c.Space != templateSpace || c.Local != "parameter" {
			continue
		}
		name, value := value(c, "name"), value(c, "value")
		if _, twice := t.Parameters[name]; twice || name == "" {
			p.badArgs(place{c, "name"}, "", "give each parameter a name of its own", "a template has a parameter with the name %.80q, which is empty or used twice", name)
		}
		t.Parameters[name] = value
		if size += len(name) + len(value); size > p.o.Limits.Command || len(t.Parameters) > p.o.Limits.Services {
			p.refuse(TooBig, place{c, ""}, "", "write the values into the source", "a template has more than %d parameters, or more than %d bytes in them", p.o.Limits.Services, p.o.Limits.Command)
			return nil
		}
	}
	text := strings.TrimRight(strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, e.Text()), "=")
	if base64.RawStdEncoding.DecodedLen(len(text)) > MaxTemplate {
		p.refuse(TooBig, place{e, ""}, "", "divide it among several templates", "a template has more than %d bytes", MaxTemplate)
		return nil
	}
	var err error
	if t.Text, err = base64.RawStdEncoding.DecodeString(text); err != nil {
		p.badArgs(place{e, ""}, "", "encode the source with base64, such as by: base64 -w0 FILE", "the content of a template is not base64")
	}
	if len(p.problems.list) > before {
		return nil
	}
	at := newPosition(p.r.doc.given)
	at.moveTo(p.r.doc.offset(place{e, ""}))
	t.Line, t.Column = at.line, at.column
	return t
}

// RemovePlaces removes lines and columns, because the experimenter has not seen an expanded request.
// Only the caller of ParseRequest may call it, before others use the request.
func (r *Request) RemovePlaces() {
	for i := range r.Nodes {
		r.Nodes[i].Line, r.Nodes[i].Column = 0, 0
	}
	for i := range r.Links {
		r.Links[i].Line, r.Links[i].Column = 0, 0
	}
	for i := range r.Notices {
		r.Notices[i].Line, r.Notices[i].Column = 0, 0
	}
}

// Expand returns the request with the content of results beside its Templates, one for each. The
// templates get the attribute expanded. If the Source of a result differs from that of the
// template, it replaces it, and the parameters are removed. All other bytes are unchanged, except
// that the root may declare further prefixes.
func (r *Request) Expand(results []Expansion) ([]byte, error) {
	s := &splices{doc: r.doc}
	root := newCommonRoot(s)
	for i, x := range results {
		t := r.Templates[i]
		compiled, err := ParseRequest(x.Request, ReadOptions{Stored: true})
		if err != nil {
			return nil, fmt.Errorf("the compiled request cannot be read: %w", err)
		}
		content, err := root.contentOf(&splices{doc: compiled.doc})
		if err != nil {
			return nil, err
		}
		e := r.doc.elements[t.element]
		tag, at := s.startTag(e), r.doc.spans[e.Index]
		tag.set("expanded", "true")
		if !slices.Equal(x.Source, t.Text) && !at.selfClosing() {
			s.replace(at.open, at.closing, base64.StdEncoding.EncodeToString(x.Source))
		}
		s.replace(at.end, at.end, "\n"+strings.TrimSpace(string(content)))
	}
	tag := s.startTag(r.doc.elements[0])
	for _, prefix := range root.declared {
		tag.add(declaration(prefix), escape(root.spaces[prefix]))
	}
	if err := s.sortEdits(); err != nil {
		return nil, err
	}
	return s.appendRange(nil, 0, len(r.doc.src)), nil
}

// contentOf returns the content of another document's root, which means the same below the common
// root.
func (c *commonRoot) contentOf(s *splices) ([]byte, error) {
	at := s.doc.spans[0]
	if at.selfClosing() {
		return nil, nil
	}
	conflicts := c.mergeSpaces(s.doc.rootSpaces)
	for e := range childElements(s.doc.elements[0]) {
		s.redeclare(e, conflicts)
	}
	if err := s.sortEdits(); err != nil {
		return nil, err
	}
	return s.appendRange(nil, at.open, at.closing), nil
}
