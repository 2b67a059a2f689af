package rspec

import (
	"errors"
	"strings"
	"time"

	"patchbay/am/urn"
)

// ManifestOptions are the properties of a whole manifest.
type ManifestOptions struct {
	// Manager becomes the component_manager_id of nodes that name none.
	Manager urn.URN
	// Generated is now; Expires is the earliest end of the leases shown, and may be
	// zero. Both are written in UTC, to the second. Clients read equal times as an
	// unknown expiry; then Generated is written a second earlier.
	Generated, Expires time.Time
	// GeneratedBy is left out if it is empty.
	GeneratedBy string
	// ASCII writes characters beyond ASCII as references, and as blanks in comments
	// and processing instructions. Names of elements and attributes, prefixes and
	// targets of processing instructions have no other spelling and stay. If they
	// are not ASCII, the manifest is not either.
	ASCII bool
}

// Part is a request with the facts about its nodes and links.
type Part struct {
	Request *Request
	// Nodes are the facts by client_id. Own nodes without facts are left out, and so
	// are links whose own nodes are all left out. Other links stay unchanged, with
	// references to interfaces that are not shown. Facts about unknown nodes are
	// ignored.
	Nodes map[string]NodeFacts
	// Links are the facts of own links by client_id. A link without facts is shown
	// if one of its nodes is.
	Links map[string]LinkFacts
}

// WriteManifest writes the manifest of one slice: the request's own bytes with
// edits, a union of several requests, or an empty manifest without parts. It does
// not change the requests. Its only error is ErrTooLarge, beyond 64 MiB.
//
// A union is the first part's document with the content of the others after its
// own, including comments and processing instructions around their roots. What
// the content of other parts inherits from its root is kept: namespaces, xml:lang,
// xml:space and xml:base are written on the common root if they are free or equal
// there, and otherwise on each child of the root. Other attributes of the roots
// are added to the common root if their names are free; the first part wins.
// Foreign nodes and links and root extensions that several parts share are shown
// once. Lost are XML declarations, root attributes that an earlier part sets
// differently, and attributes beyond 90 on the common root. An xml:base of the
// first part also applies to the others.
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

// maxManifest bounds the inserted text: keys times nodes, or namespaces times
// elements, can make a large manifest from a small request.
const maxManifest = 64 << 20

// ErrTooLarge is the error of WriteManifest for more than maxManifest inserted bytes.
var ErrTooLarge = errors.New("the manifest is larger than 64 MiB; ask for fewer slivers at once")

// emptyManifest returns a manifest without nodes and links.
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

// rootAttribute is an attribute that the manifest sets on its root.
type rootAttribute struct{ name, value string }

// rootAttributes returns the attributes that a manifest sets on its root; those
// without a value are left out.
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

// stamp formats a time in UTC, to the second.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// edit makes the edits of one part, except those of the root's start tag.
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
