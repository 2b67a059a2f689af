package rspec

import (
	"errors"
	"fmt"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

const (
	defaultMaxNodes = 10_000
	defaultMaxLinks = 10_000
)

// ParseRequest reads and checks a request. Every error is a *RequestError. The
// bytes become the request's and must not be changed afterwards.
func ParseRequest(b []byte, o ReadOptions) (*Request, error) {
	var doc *document
	err := xmltree.Parse(b, o.Limits, func(d *xmltree.Doc) (err error) {
		doc, err = locate(d, b)
		return err
	})
	if err != nil {
		return nil, unreadable(err)
	}
	root := doc.elements[0]
	if err := checkRoot(root); err != nil {
		return nil, err
	}
	p := requestParser{
		o:          o,
		r:          &Request{doc: doc, GeneratedBy: value(root, "generated_by")},
		interfaces: map[string]end{},
	}
	if err := p.read(root); err != nil {
		return nil, err
	}
	return p.r, nil
}

// unreadable says why there is no document at all.
func unreadable(err error) error {
	if limit, ok := errors.AsType[*xmltree.LimitError](err); ok {
		kind := BadArgs
		switch limit.Limit {
		case "bytes", "elements", "attributes":
			kind = TooBig
		}
		return &RequestError{Kind: kind, Line: limit.Line, Msg: fmt.Sprintf("the request is too big: %v; split it or leave something out", limit)}
	}
	if syntax, ok := errors.AsType[*xmltree.SyntaxError](err); ok {
		return &RequestError{Kind: BadArgs, Line: syntax.Line, Msg: fmt.Sprintf("cannot read the request: %v; check it with xmllint --noout", syntax)}
	}
	return &RequestError{Kind: BadArgs, Msg: fmt.Sprintf("cannot read the request: %v; check it with xmllint --noout", err)}
}

func checkRoot(root *xmltree.Element) error {
	refuse := func(k Kind, format string, args ...any) error { return refusal(k, root, "", format, args...) }
	switch {
	case root.Local != "rspec":
		return refuse(BadArgs, "the document is a <%.80s>, not an RSpec; begin it with <rspec type=\"request\" xmlns=%q>", root.Local, Namespace)
	case root.Space == "":
		return refuse(BadArgs, "the rspec is in no namespace; add xmlns=%q", Namespace)
	case root.Space != Namespace:
		return refuse(BadVersion, "RSpecs of the namespace %.120q are not read here; send GENI version 3, xmlns=%q", root.Space, Namespace)
	}
	switch kind, given := root.Attr("", "type"); {
	case !given:
		return refuse(BadArgs, "the rspec has no type; add type=\"request\"")
	case kind == "manifest":
		return refuse(BadArgs, "this is a manifest; to ask for the same again change type to \"request\"")
	case kind != "request":
		return refuse(BadArgs, "the rspec has type %.40q; only type=\"request\" can be asked for", kind)
	}
	return nil
}

// refusal makes a RequestError about e; its message begins with the line.
func refusal(k Kind, e *xmltree.Element, clientID, format string, args ...any) *RequestError {
	msg := fmt.Sprintf("line %d: ", e.Line) + fmt.Sprintf(format, args...)
	return &RequestError{Kind: k, ClientID: clientID, Line: e.Line, Msg: msg}
}

// requestParser fills in a Request.
type requestParser struct {
	o ReadOptions
	r *Request
	// interfaces are those of all nodes, by client_id.
	interfaces map[string]end
}

// end is an interface that a link may end at.
type end struct {
	own bool
	// node is the number of the own node among Request.Nodes, and number that
	// of the interface among the node's.
	node, number int
}

func (p *requestParser) read(root *xmltree.Element) error {
	nodes, links := children(root, "node"), children(root, "link")
	if most := orDefault(p.o.MaxNodes, defaultMaxNodes); len(nodes) > most {
		return refusal(TooBig, nodes[most], "", "the request has more than %d nodes; split it into several", most)
	}
	if most := orDefault(p.o.MaxLinks, defaultMaxLinks); len(links) > most {
		return refusal(TooBig, links[most], "", "the request has more than %d links; split it into several", most)
	}
	ids := newNames("node")
	for _, e := range nodes {
		own := p.owns(e)
		if err := ids.add(e, own); err != nil {
			return err
		}
		if !own {
			p.r.Foreign++
			continue
		}
		n, err := readNode(e)
		if err != nil {
			return err
		}
		p.r.Nodes = append(p.r.Nodes, n)
	}
	if err := p.collectInterfaces(nodes); err != nil {
		return err
	}
	ids = newNames("link")
	for _, e := range links {
		if err := p.readLink(e, ids); err != nil {
			return err
		}
	}
	return nil
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// owns tells whether a node is this aggregate's: it names us, or nobody and is
// not bound to another's component.
func (p *requestParser) owns(e *xmltree.Element) bool {
	if manager := strings.TrimSpace(value(e, "component_manager_id")); manager != "" {
		return p.isUs(manager, func() {
			p.notice("line %d: node %.80q names a manager that is no URN, %.80q; it is taken for another aggregate's", e.Line, value(e, "client_id"), manager)
		})
	}
	component, err := urn.Parse(strings.TrimSpace(value(e, "component_id")))
	if err != nil {
		return true // readNode says what is wrong with it
	}
	for _, m := range p.o.Managers {
		if urn.Covers(m.Authority, component.Authority) {
			return true
		}
	}
	return false
}

// isUs tells whether text names this aggregate; odd is called if it is no URN.
func (p *requestParser) isUs(text string, odd func()) bool {
	u, err := urn.Parse(text)
	if err != nil {
		odd()
		return false
	}
	for _, m := range p.o.Managers {
		if urn.SameManager(u, m) || u.Equal(m) {
			return true
		}
	}
	return false
}

// maxNotices keeps the answer short however odd the request is.
const maxNotices = 20

func (p *requestParser) notice(format string, args ...any) {
	if len(p.r.Notices) < maxNotices {
		p.r.Notices = append(p.r.Notices, fmt.Sprintf(format, args...))
	}
}

// collectInterfaces notes whose each interface is; nodes are all the nodes.
func (p *requestParser) collectInterfaces(nodes []*xmltree.Element) error {
	ids := newNames("interface")
	number := 0
	for _, e := range nodes {
		own := number < len(p.r.Nodes) && p.r.Nodes[number].element == e.Index
		for i, in := range children(e, "interface") {
			if err := ids.add(in, own); err != nil {
				return err
			}
			if id := value(in, "client_id"); id != "" {
				p.interfaces[id] = end{own, number, i}
			}
		}
		if own {
			number++
		}
	}
	return nil
}

// names are the client_ids of one kind of element.
type names struct {
	kind string
	seen map[string]bool // whether an own element bears it
}

func newNames(kind string) *names { return &names{kind, map[string]bool{}} }

// add notes the client_id of e. It must be there if e is ours, and be used once
// if e or its other bearer is.
func (s *names) add(e *xmltree.Element, own bool) error {
	id := value(e, "client_id")
	if id == "" {
		if own {
			return refusal(BadArgs, e, "", "a %s has no client_id; give it one, such as client_id=\"%s0\"", s.kind, s.kind)
		}
		return nil
	}
	before, twice := s.seen[id]
	if twice && (own || before) {
		return refusal(BadArgs, e, id, "two %ss have the client_id %.80q; rename one of them", s.kind, id)
	}
	s.seen[id] = own || before
	return nil
}
