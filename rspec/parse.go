package rspec

import (
	"errors"
	"fmt"
	"time"

	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// ParseRequest reads and checks a request. Every error is a *RequestError and
// tells all that was found. The bytes become the request's and must not be
// changed afterwards.
func ParseRequest(b []byte, o ReadOptions) (*Request, error) {
	r, refused, _ := read(b, o)
	if refused != nil {
		return nil, refused
	}
	return r, nil
}

// Check is ParseRequest for those who want to see everything: all problems and
// all remarks, by line. The request is nil if there is a problem that is more
// than a remark.
func Check(b []byte, o ReadOptions) (*Request, []Problem) {
	r, refused, remarks := read(b, o)
	if refused == nil {
		return r, remarks
	}
	return nil, merged(refused.Problems, remarks)
}

// maxJudged is the size in bytes of a request that the schemas are asked about.
const maxJudged = 256 << 10

// judging keeps the schemas from taking all processors, for nothing can end a
// judgement that has begun.
var judging = gate{make(chan struct{}, 2), 5 * time.Second}

// gate lets so many through at one time as its channel holds.
type gate struct {
	inside   chan struct{}
	patience time.Duration
}

// pass calls f when there is room, or tells that there was none for as long as
// it has patience.
func (g gate) pass(f func()) bool {
	select {
	case g.inside <- struct{}{}:
	case <-time.After(g.patience):
		return false
	}
	defer func() { <-g.inside }()
	f()
	return true
}

// read gives either the request or why it is refused, and the remarks on it.
func read(b []byte, o ReadOptions) (*Request, *RequestError, []Problem) {
	o.Limits = o.Limits.withDefaults()
	if o.Stored {
		o.Limits, o.LinkTypes, o.CopyCrossLinks = widest(), nil, true
	}
	var (
		doc      *document
		findings []xmltree.Finding
	)
	err := xmltree.Parse(b, o.Limits.xml(), func(d *xmltree.Doc) (err error) {
		if o.Judge && len(b) <= maxJudged {
			judging.pass(func() { findings = d.Validate(xmltree.Known(schemas.Request)) })
		}
		doc, err = locate(d, b)
		return err
	})
	if err != nil {
		return nil, unreadable(err), nil
	}
	root := doc.elements[0]
	p := requestParser{
		o:        o,
		r:        &Request{doc: doc, Findings: findings, GeneratedBy: value(root, "generated_by"), Managers: o.Managers},
		problems: report{most: maxProblems},
		remarks:  report{most: maxRemarks},
	}
	if p.checkRoot(root); len(p.problems.list) == 0 {
		p.read(root)
	}
	p.r.Notices = p.remarks.problems(doc)
	return p.r, refusal(p.problems.problems(doc), p.problems.more), p.r.Notices
}

// unreadable says why there is no document at all.
func unreadable(err error) *RequestError {
	var p Problem
	if limit, ok := errors.AsType[*xmltree.LimitError](err); ok {
		p = tooBig(limit)
	} else if syntax, ok := errors.AsType[*xmltree.SyntaxError](err); ok {
		p = Problem{Kind: BadArgs, Line: syntax.Line, Column: syntax.Column, Msg: "cannot read the request: " + syntax.Msg, Remedy: "check it with xmllint --noout"}
	} else {
		p = Problem{Kind: BadArgs, Msg: fmt.Sprintf("cannot read the request: %v", err), Remedy: "check it with xmllint --noout"}
	}
	return refusal([]Problem{p}, 0)
}

// requestParser fills in a Request.
type requestParser struct {
	o                 ReadOptions
	r                 *Request
	problems, remarks report

	// interfaces are the numbers of ends by client_id.
	interfaces map[string]int
	ends       []end
	// nodeNames, linkNames and interfaceNames are the client_ids given so far.
	nodeNames, linkNames, interfaceNames names
}

// refuse notes why the request cannot be taken; client_id and remedy may be
// empty. Nothing is wrong with a request that was taken once.
func (p *requestParser) refuse(k Kind, at place, clientID, remedy, format string, args ...any) {
	if !p.o.Stored {
		p.problems.add(finding{at, k, clientID, remedy, format, args})
	}
}

// wrong refuses what is wrong in itself.
func (p *requestParser) wrong(at place, clientID, remedy, format string, args ...any) {
	p.refuse(BadArgs, at, clientID, remedy, format, args...)
}

// remark notes what the experimenter should know.
func (p *requestParser) remark(at place, clientID, remedy, format string, args ...any) {
	p.remarks.add(finding{at, 0, clientID, remedy, format, args})
}

func (p *requestParser) checkRoot(root *xmltree.Element) {
	here, kind := place{root, ""}, place{root, "type"}
	switch {
	case root.Local != "rspec":
		p.wrong(here, "", fmt.Sprintf("begin it with <rspec type=\"request\" xmlns=%q>", Namespace), "the document is a <%.80s>, not an RSpec", root.Local)
		return
	case root.Space == "":
		p.wrong(here, "", fmt.Sprintf("add xmlns=%q", Namespace), "the rspec is in no namespace")
		return
	case root.Space != Namespace:
		p.refuse(BadVersion, here, "", fmt.Sprintf("send GENI version 3, xmlns=%q", Namespace), "RSpecs of the namespace %.120q are not read here", root.Space)
		return
	}
	switch is, given := root.Attr("", "type"); {
	case !given:
		p.wrong(here, "", `add type="request"`, "the rspec has no type")
	case is == "manifest":
		p.wrong(kind, "", `to ask for the same again change type to "request"`, "this is a manifest")
	case is != "request":
		p.wrong(kind, "", `only type="request" can be asked for`, "the rspec has type %.40q", is)
	}
}

func (p *requestParser) read(root *xmltree.Element) {
	var nodes, links []*xmltree.Element
	for e := range childElements(root) {
		switch {
		case is(e, "node"):
			nodes = append(nodes, e)
		case is(e, "link"):
			links = append(links, e)
		case isMonitoring(e) && p.r.Monitoring == nil:
			p.r.Monitoring = p.readMonitoring(e, "")
		}
	}
	if p.tooMany(nodes, links) {
		return
	}
	p.r.numbers = make(map[string]int, len(nodes))
	p.interfaces = make(map[string]int, len(nodes))
	p.nodeNames, p.linkNames, p.interfaceNames = newNames("node", len(nodes)), newNames("link", len(links)), newNames("interface", len(nodes))
	for _, e := range nodes {
		own := p.owns(e)
		free := p.nameIsFree(&p.nodeNames, e, own)
		if !own {
			p.r.Foreign++
			p.passBy(e)
			continue
		}
		if free {
			p.r.numbers[value(e, "client_id")] = len(p.r.Nodes)
		}
		p.r.Nodes = append(p.r.Nodes, p.readNode(e))
	}
	for _, e := range links {
		p.readLink(e)
	}
	p.unmetWishes(root)
}

// tooMany refuses more than the limits of this package allow; it is then the
// only thing that is said.
func (p *requestParser) tooMany(nodes, links []*xmltree.Element) bool {
	lim := p.o.Limits
	refuse := func(first *xmltree.Element, most int, key string) bool {
		p.refuse(TooBig, place{first, ""}, "", raise("split it into several", key), "the request has more than %d %s", most, key)
		return true
	}
	if len(nodes) > lim.Nodes {
		return refuse(nodes[lim.Nodes], lim.Nodes, "nodes")
	}
	if len(links) > lim.Links {
		return refuse(links[lim.Links], lim.Links, "links")
	}
	n := 0
	for _, e := range nodes {
		for c := range childElements(e) {
			if !is(c, "interface") {
				continue
			}
			if n++; n > lim.Interfaces {
				return refuse(c, lim.Interfaces, "interfaces")
			}
		}
	}
	return false
}

// names are the client_ids of one kind of element.
type names struct {
	kind, one string // as in "node" and "a node"
	seen      map[string]bearer
}

// bearer is the first element with a name.
type bearer struct {
	line int
	own  bool // whether it, or another of the name, is ours
}

func newNames(kind string, n int) names {
	one := "a " + kind
	if kind == "interface" {
		one = "an " + kind
	}
	return names{kind, one, make(map[string]bearer, n)}
}

// nameIsFree notes the client_id of e. It must be there if e is ours, and be
// used once if e or its other bearer is.
func (p *requestParser) nameIsFree(s *names, e *xmltree.Element, own bool) bool {
	id := value(e, "client_id")
	at := place{e, "client_id"}
	if id == "" {
		if own {
			p.wrong(at, "", "give it one, such as client_id=\""+s.kind+"0\"", "%s has no client_id", s.one)
		}
		return false
	}
	if own && len(id) > p.o.Limits.ClientID {
		p.refuse(TooBig, at, "", raise("choose a shorter one", "client_id"), "the client_id of %s has more than %d bytes, %.40q…", s.one, p.o.Limits.ClientID, id)
	}
	before, twice := s.seen[id]
	if twice && (own || before.own) {
		p.wrong(at, id, "rename one of them", "two %ss have the client_id %.80q, this one and the one in line %d", s.kind, id, before.line)
		s.seen[id] = bearer{before.line, true}
		return false
	}
	if !twice {
		s.seen[id] = bearer{e.Line, own}
	}
	return true
}
