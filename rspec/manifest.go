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
	// told in UTC, to the second; a zero Expires is not told. Clients take equal
	// times for unknown, so Generated is told a second earlier then.
	Generated, Expires time.Time
	// GeneratedBy is not told if it is empty.
	GeneratedBy string
	// ASCII writes characters beyond ASCII as references and blanks them in
	// comments and processing instructions. Names of elements and attributes,
	// prefixes, and targets of processing instructions have no other spelling
	// and stay: where they are not ASCII, neither is the manifest.
	ASCII bool
}

// Part is a request and what came of it.
type Part struct {
	Request *Request
	// Nodes are the facts by client_id. Own nodes without facts are left out,
	// and so are links that end at own nodes of which none is left; a link of
	// which one is left stays as it is, with references to interfaces that are
	// not shown. Facts without an own node are not told.
	Nodes map[string]NodeFacts
	// Links are the facts of own links by client_id; a link without facts is
	// shown while one of its nodes is.
	Links map[string]LinkFacts
}

// WriteManifest writes the manifest of one slice: the request's own bytes with
// splices, the union of several requests, or, without parts, a manifest of
// nothing. The requests are left as they are. Beyond 64 MiB the error is ErrTooLarge;
// nothing else fails.
//
// A union is the first part's document, with the content of the others behind
// its own, comments and processing instructions around their roots included.
// What other parts' content inherits from its root is kept: namespaces, xml:lang,
// xml:space and xml:base are told on the common root where they are free or the
// same there, and else on each child of the root. Further attributes of their
// roots go to the common root where their names are free, the first part's first.
// Foreign nodes and links and root extensions that parts have alike are shown
// once. Not kept are XML declarations, attributes of roots of which an earlier
// part has another value, and what would be beyond 90 attributes of the common
// root; an xml:base of the first part cannot be taken back for others.
func WriteManifest(parts []Part, o ManifestOptions) ([]byte, error) {
	if len(parts) == 0 {
		return emptyManifest(o), nil
	}
	var m *union
	for i := range parts {
		s, err := parts[i].edit(o.Manager)
		if err != nil {
			return nil, err
		}
		if m == nil {
			m = newUnion(parts[i].Request, s, len(parts) > 1)
			continue
		}
		if err := m.add(parts[i].Request, s); err != nil {
			return nil, err
		}
	}
	text, err := m.write(o)
	if err == nil && o.ASCII {
		text = []byte(asciiXML(string(text)))
	}
	return text, err
}

// maxManifest bounds what is spliced in: keys times nodes, or namespaces times
// elements, may make much of little.
const maxManifest = 64 << 20

// ErrTooLarge is returned by WriteManifest.
var ErrTooLarge = errors.New("the manifest is larger than 64 MiB; ask for fewer slivers at once")

func emptyManifest(o ManifestOptions) []byte {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	b.WriteString(`<rspec xmlns="` + Namespace + `" xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` + Namespace + " " + ManifestSchema + `" type="manifest"`)
	for _, a := range rootAttributes(o) {
		if a.value != "" {
			b.WriteString(" " + a.name + `="` + escape(a.value) + `"`)
		}
	}
	b.WriteString("/>\n")
	return []byte(b.String())
}

type rootAttribute struct{ name, value string }

// rootAttributes are those that a manifest tells about itself; what has no value
// is not told.
func rootAttributes(o ManifestOptions) []rootAttribute {
	generated, expires := stamp(o.Generated), ""
	if !o.Expires.IsZero() {
		expires = stamp(o.Expires)
	}
	if generated == expires {
		generated = stamp(o.Generated.Add(-time.Second))
	}
	return []rootAttribute{{"generated", generated}, {"generated_by", o.GeneratedBy}, {"expires", expires}}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// edit makes the splices of one part, except those of the root's start tag.
func (p *Part) edit(manager urn.URN) (*splices, error) {
	r := p.Request
	s := &splices{doc: r.doc}
	kept := make([]bool, len(r.Nodes))
	ends := map[string]urn.URN{}
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
			return nil, ErrTooLarge
		}
		if len(facts.Interfaces) > 0 {
			for _, in := range n.Interfaces {
				ends[in.ClientID] = facts.Interfaces[in.ClientID].ComponentID
			}
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
			s.annotateLink(e, p.Links[value(e, "client_id")], ends)
		}
		if s.size > maxManifest {
			return nil, ErrTooLarge
		}
	}
	return s, nil
}
