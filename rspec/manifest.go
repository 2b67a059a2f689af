package rspec

import (
	"errors"
	"strings"
	"time"

	"patchbay/am/urn"
)

// ManifestOptions are the properties of a whole manifest.
type ManifestOptions struct {
	// Manager becomes the component_manager_id of own nodes, and the component_manager of own
	// links, that name none.
	Manager urn.URN
	// Generated is the current time. Expires is the earliest end of the shown leases,
	// and may be zero. Both are written in UTC, to the second. If both are equal,
	// Generated is written a second earlier, because clients would read equal times
	// as an unknown expiry.
	Generated, Expires time.Time
	// GeneratedBy is left out if it is empty.
	GeneratedBy string
	// ASCII writes characters beyond ASCII as references, and as blanks in comments
	// and processing instructions. Names of elements and attributes, prefixes and
	// targets of processing instructions remain unchanged, even if they are not
	// ASCII.
	ASCII bool
}

// Part is a request with the facts about its nodes and links.
type Part struct {
	Request *Request
	// Nodes are the facts about own nodes, by client_id. Own nodes without facts are
	// left out, and so are links whose own nodes are all left out. Other links keep
	// their references to interfaces that are not shown. Facts about unknown nodes
	// are ignored.
	Nodes map[string]NodeFacts
	// Links are the facts about own links, by client_id. A link without facts is
	// shown if one of its nodes is shown.
	Links map[string]LinkFacts
}

// WriteManifest writes the manifest of one slice. It is the request's own bytes with edits, a
// union of several requests, or, without parts, an empty manifest. It fails with ErrTooLarge
// for more than 64 MiB.
//
// A union is the first part's document. The contents of the other parts follow the first
// part's content, with the comments and processing instructions around their roots. The
// children of each root keep the namespaces, xml:lang, xml:space and xml:base that they
// inherit from the root.
//
// The union has one common root. If the prefix of a part is free on the common root, it is
// declared there. If the prefix stands for another namespace there, each child of the part's
// root declares the prefix. In the same way, each child gets the xml: attributes that differ
// from those of the common root. Another attribute of a part's root is added to the common
// root, unless the common root has an attribute with the same name. Foreign nodes and links
// and root extensions that several parts share are shown once.
//
// A link that adds ends to another link (Link.Join) is not shown if the other one is: its ends and
// properties are added to the other link. Of several links with one client_id that do not join, the
// one of the last part is shown; the earlier ones add the ends that it lacks. So the parts come in
// the order of their requests' age.
//
// A union does not contain the XML declarations of further parts, root attributes that an
// earlier part sets differently, or attributes beyond 90 on the common root. An xml:base of
// the first part also applies to the other parts.
func WriteManifest(parts []Part, o ManifestOptions) ([]byte, error) {
	if len(parts) == 0 {
		return emptyManifest(o), nil
	}
	joined := joinedLinks(parts)
	edits := make([]*splices, len(parts))
	for i := range parts {
		var err error
		if edits[i], err = parts[i].edit(o.Manager, joined); err != nil {
			return nil, err
		}
	}
	joined.write(edits)
	var m *union
	for i, s := range edits {
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

// maxManifest limits the inserted bytes. A small request can lead to a large manifest, because
// keys are inserted in each node, and namespaces in each element.
const maxManifest = 64 << 20

// ErrTooLarge is the error of WriteManifest for more than maxManifest inserted bytes.
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

// rootAttributes returns the attributes that a manifest sets on its root. The manifest leaves
// out those with an empty value.
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

// edit returns the edits of the part's own nodes and links: it writes the facts, and cuts nodes without facts
// and the links that end only at them. A link that joined maps to another one is cut, too, and its ends are
// added there. The root's start tag remains unchanged. edit fails with ErrTooLarge.
func (p *Part) edit(manager urn.URN, joined joinedTo) (*splices, error) {
	r := p.Request
	s := &splices{doc: r.doc}
	ends := map[string]urn.URN{}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		facts, ok := p.Nodes[n.ClientID]
		if e := r.doc.elements[n.element]; ok {
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
	for i := range r.links {
		l := &r.links[i]
		e := r.doc.elements[l.element]
		switch to := joined[e]; {
		case !p.shows(l):
			s.cut(e)
		case to != nil:
			to.addEnds(e, l.join, ends)
			s.cut(e)
		case !l.cross:
			s.annotateLink(e, p.Links[value(e, "client_id")], manager, ends)
		}
		if s.size > maxManifest {
			return nil, ErrTooLarge
		}
	}
	return s, nil
}
