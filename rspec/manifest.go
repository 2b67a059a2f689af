package rspec

import (
	"errors"
	"strings"
	"time"

	"patchbay/am/urn"
)

// ManifestOptions are what a manifest tells about itself.
type ManifestOptions struct {
	// Manager fills in component_manager_id where a node names nobody.
	Manager urn.URN
	// Generated is now; Expires the earliest end of the leases shown. They are
	// told in UTC, to the second; a zero Expires is not told.
	Generated, Expires time.Time
	GeneratedBy        string
	// ASCII writes characters beyond ASCII as references and blanks them in
	// comments and processing instructions. Element and attribute names stay.
	ASCII bool
}

// Part is a request and what came of it.
type Part struct {
	Request *Request
	// Nodes are the facts by client_id. Own nodes without facts are left out,
	// and so are links that end at own nodes of which none is left; facts
	// without an own node are not told.
	Nodes map[string]NodeFacts
	// Links are the facts of own links by client_id; a link without facts is
	// shown while one of its nodes is.
	Links map[string]LinkFacts
}

// WriteManifest writes the manifest of one slice: the request's own bytes with
// splices, the union of several requests, or, without parts, a manifest of
// nothing. The requests are left as they are. What is told must stay below 64 MiB.
func WriteManifest(parts []Part, o ManifestOptions) ([]byte, error) {
	if len(parts) == 0 {
		return emptyManifest(o), nil
	}
	var m *union
	for i := range parts {
		p := &parts[i]
		s, err := p.edit(o.Manager)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
			m = newUnion(p, s)
			if len(parts) > 1 {
				m.remember(p)
			}
		default:
			if err := m.add(p, s); err != nil {
				return nil, err
			}
		}
	}
	text, err := m.write(o)
	if err != nil {
		return nil, err
	}
	if o.ASCII {
		text = asciiXML(text)
	}
	return []byte(text), nil
}

// maxManifest bounds what is spliced in: keys times nodes, or namespaces times
// elements, may make much of little.
const maxManifest = 64 << 20

var errTooLarge = errors.New("the manifest is larger than 64 MiB")

func emptyManifest(o ManifestOptions) []byte {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	b.WriteString(`<rspec xmlns="` + Namespace + `" xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` + Namespace + " " + ManifestSchema + `" type="manifest"`)
	for _, a := range rootAttributes(o) {
		b.WriteString(" " + a.name + `="` + escape(a.value) + `"`)
	}
	b.WriteString("/>\n")
	return []byte(b.String())
}

type rootAttribute struct{ name, value string }

// rootAttributes are those that every manifest of ours tells.
func rootAttributes(o ManifestOptions) []rootAttribute {
	list := []rootAttribute{{"generated", stamp(o.Generated)}}
	if o.GeneratedBy != "" {
		list = append(list, rootAttribute{"generated_by", o.GeneratedBy})
	}
	if !o.Expires.IsZero() {
		list = append(list, rootAttribute{"expires", stamp(o.Expires)})
	}
	return list
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// edit makes the splices of one part, except those of the root's start tag.
func (p *Part) edit(manager urn.URN) (*splices, error) {
	r := p.Request
	s := &splices{doc: r.doc}
	kept := make([]bool, len(r.Nodes))
	for i := range r.Nodes {
		n := &r.Nodes[i]
		facts, ok := p.Nodes[n.ClientID]
		if e := r.doc.elements[n.element]; ok {
			kept[i] = true
			s.annotate(e, &facts, manager)
		} else {
			s.cut(e)
		}
		if s.size > maxManifest {
			return nil, errTooLarge
		}
	}
	for _, l := range r.links {
		e, left := r.doc.elements[l.element], false
		for _, n := range l.nodes {
			left = left || kept[n]
		}
		switch {
		case !left:
			s.cut(e)
		case !l.cross:
			s.annotateLink(e)
		}
	}
	return s, nil
}
