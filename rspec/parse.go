package rspec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// ParseRequest reads and checks a request. Every error is a *RequestError that
// lists all problems. The Request refers to b, which must not be changed afterwards.
func ParseRequest(b []byte, o ReadOptions) (*Request, error) {
	r, refused, _ := readRequest(b, o)
	if refused != nil {
		return nil, refused
	}
	return r, nil
}

// Check reads a request as ParseRequest does, and returns all problems and remarks in the
// order of lines. The Request is nil if the request is refused.
func Check(b []byte, o ReadOptions) (*Request, []Problem) {
	r, refused, remarks := readRequest(b, o)
	if refused == nil {
		return r, remarks
	}
	return nil, mergeByLine(refused.Problems, remarks)
}

// maxSchemaCheck limits the bytes of a request that is checked with the schemas.
const maxSchemaCheck = 256 << 10

// schemaChecks limits the number of concurrent schema checks. Without a limit slow checks
// could accumulate, because a check cannot be interrupted.
var schemaChecks = semaphore{make(chan struct{}, 2), 5 * time.Second}

type semaphore struct {
	slots   chan struct{}
	maxWait time.Duration
}

// run calls f when a slot is free. If no slot becomes free within maxWait, run returns false
// and does not call f.
func (g semaphore) run(f func()) bool {
	select {
	case g.slots <- struct{}{}:
	case <-time.After(g.maxWait):
		return false
	}
	defer func() { <-g.slots }()
	f()
	return true
}

func readRequest(b []byte, o ReadOptions) (r *Request, refused *RequestError, remarks []Problem) {
	o.Limits = o.Limits.withDefaults()
	if o.Stored {
		o.Limits, o.LinkTypes, o.CopyCrossLinks = maxLimits(), nil, true
	}
	var (
		doc      *document
		findings []xmltree.Finding
	)
	err := xmltree.Parse(b, o.Limits.xml(), func(d *xmltree.Doc) (err error) {
		if o.CheckSchemas && len(b) <= maxSchemaCheck {
			schemaChecks.run(func() { findings = d.Validate(xmltree.Known(schemas.Request)) })
		}
		doc, err = locate(d, b)
		return err
	})
	if err != nil {
		return nil, parseError(err), nil
	}
	root := doc.elements[0]
	p := requestParser{
		o:          o,
		leaseNames: map[string]*leaseElement{},
		r:          &Request{doc: doc, options: o, Findings: findings, GeneratedBy: value(root, "generated_by"), Managers: o.Managers},
		problems:   report{most: maxProblems},
		remarks:    report{most: maxRemarks},
	}
	if p.checkRoot(root); len(p.problems.list) == 0 {
		p.readRoot(root)
	}
	p.r.Notices = p.remarks.problems(doc)
	return p.r, newRequestError(p.problems.problems(doc), p.problems.more), p.r.Notices
}

func parseError(err error) *RequestError {
	var p Problem
	if limit, ok := errors.AsType[*xmltree.LimitError](err); ok {
		p = tooBig(limit)
	} else if syntax, ok := errors.AsType[*xmltree.SyntaxError](err); ok {
		p = Problem{Kind: BadArgs, Line: syntax.Line, Column: syntax.Column, Msg: "cannot read the request: " + syntax.Msg, Remedy: "correct the XML there"}
	} else {
		p = Problem{Kind: BadArgs, Msg: fmt.Sprintf("cannot read the request: %v", err), Remedy: "give a request RSpec"}
	}
	return newRequestError([]Problem{p}, 0)
}

type requestParser struct {
	o                 ReadOptions
	r                 *Request
	problems, remarks report

	// interfaces has indexes of ends by client_id.
	interfaces                           map[string]int
	ends                                 []end
	nodeNames, linkNames, interfaceNames names

	steps []stepElements
	// leases are those of the root, and leaseNames has them by name.
	leases     []*leaseElement
	leaseNames map[string]*leaseElement

	// artifactTemplates are the ArtifactTemplates by id, and artifacts those that were used.
	artifactTemplates map[string]*xmltree.Element
	artifacts         map[*xmltree.Element]*artifact
	// expanded is the size of what the steps of all nodes repeat, in bytes.
	expanded int
}

// refuse records a problem that makes the request unacceptable; clientID and remedy may be
// empty. A stored request is never refused.
func (p *requestParser) refuse(k Kind, at place, clientID, remedy, format string, args ...any) {
	if !p.o.Stored {
		p.problems.add(finding{at, k, clientID, remedy, format, args})
	}
}

func (p *requestParser) badArgs(at place, clientID, remedy, format string, args ...any) {
	p.refuse(BadArgs, at, clientID, remedy, format, args...)
}

func (p *requestParser) remark(at place, clientID, remedy, format string, args ...any) {
	p.remarks.add(finding{at, 0, clientID, remedy, format, args})
}

func (p *requestParser) checkRoot(root *xmltree.Element) {
	here, kind := place{root, ""}, place{root, "type"}
	switch {
	case root.Local != "rspec":
		p.badArgs(here, "", fmt.Sprintf("begin it with <rspec type=\"request\" xmlns=%q>", Namespace), "the document is a <%.80s>, not an RSpec", root.Local)
		return
	case root.Space == "":
		p.badArgs(here, "", fmt.Sprintf("add xmlns=%q", Namespace), "the rspec is in no namespace")
		return
	case root.Space != Namespace:
		p.refuse(BadVersion, here, "", fmt.Sprintf("send GENI version 3, xmlns=%q", Namespace), "RSpecs of the namespace %.120q are not read here", root.Space)
		return
	}
	switch is, given := root.Attr("", "type"); {
	case !given:
		p.badArgs(here, "", `add type="request"`, "the rspec has no type")
	case is == "manifest":
		p.badArgs(kind, "", `to request the same again, change type to "request"`, "this is a manifest")
	case is != "request":
		p.badArgs(kind, "", `send an rspec with type="request"`, "the rspec has type %.40q", is)
	}
}

func (p *requestParser) readRoot(root *xmltree.Element) {
	var nodes, ownNodes, links []*xmltree.Element
	for e := range childElements(root) {
		switch {
		case isElement(e, "node"):
			nodes = append(nodes, e)
		case isElement(e, "link"):
			links = append(links, e)
		case e.Space == nitosSpace && e.Local == "lease":
			p.addLease(e)
		case isMonitoring(e) && p.r.Monitoring == nil:
			p.r.Monitoring = p.readMonitoring(e, "")
		case e.Space == setupSpace:
			p.readPlan(e)
		case e.Space == templateSpace && e.Local == "source":
			p.readTemplate(e)
		case isTOSCA(e) && e.Local == "ArtifactTemplate":
			p.addArtifactTemplate(e)
		case isMisspelledSpace(e.Space):
			p.remarkForeign(e, &setupExtension)
		}
	}
	if p.tooMany(nodes, links) {
		return
	}
	p.r.numbers = make(map[string]int, len(nodes))
	p.interfaces = make(map[string]int, len(nodes))
	p.nodeNames, p.linkNames, p.interfaceNames = newNames("node", len(nodes)), newNames("link", len(links)), newNames("interface", len(nodes))
	for _, e := range nodes {
		own := p.isOwnNode(e)
		free := p.claimName(&p.nodeNames, e, own)
		if !own {
			p.r.Foreign++
			p.readForeignNode(e)
			continue
		}
		if free {
			p.r.numbers[value(e, "client_id")] = len(p.r.Nodes)
		}
		ownNodes = append(ownNodes, e)
		p.r.Nodes = append(p.r.Nodes, p.readNode(e))
	}
	p.checkNodeNames(ownNodes)
	p.checkSteps()
	for _, e := range links {
		p.readLink(e)
	}
	p.remarkUnsupportedRoot(root)
	if _, given := root.Attr("", "expires"); given && len(p.r.Nodes) > 0 && !isManifest(nodes) {
		p.remark(place{root, "expires"}, "", "give the option geni_end_time, or call Renew", "the expires of the rspec has no effect")
	}
}

// isManifest reports whether the nodes are those of a manifest, whose facts are not wishes.
func isManifest(nodes []*xmltree.Element) bool {
	return slices.ContainsFunc(nodes, func(e *xmltree.Element) bool { return value(e, "sliver_id") != "" })
}

// remarkAttribute adds a remark on an attribute of a part of an own node or link that asks for
// something and has no effect.
func (p *requestParser) remarkAttribute(e *xmltree.Element, name, clientID, remedy string) {
	if text := trimmed(e, name); text != "" {
		p.remark(place{e, name}, clientID, remedy, "%s %.80q has %s=%.40q, which has no effect", e.Local, clientID, name, text)
	}
}

// tooMany reports whether the request has more nodes, links or interfaces than the limits allow. If so, it
// refuses the request at the first element beyond the limit.
func (p *requestParser) tooMany(nodes, links []*xmltree.Element) bool {
	lim := p.o.Limits
	refuse := func(first *xmltree.Element, most int, key string) bool {
		p.refuse(TooBig, place{first, ""}, "", raiseRemedy("split it into several", key), "the request has more than %d %s", most, key)
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
			if !isElement(c, "interface") {
				continue
			}
			if n++; n > lim.Interfaces {
				return refuse(c, lim.Interfaces, "interfaces")
			}
		}
	}
	return false
}

type names struct {
	kind, one string // as in "node" and "a node"
	seen      map[string]firstUse
}

type firstUse struct {
	line int
	own  bool // an element with this name is ours
}

func newNames(kind string, n int) names {
	one := "a " + kind
	if kind == "interface" {
		one = "an " + kind
	}
	return names{kind, one, make(map[string]firstUse, n)}
}

// isControl reports whether c is a control character or a separator of lines. Such a client_id would
// break the files and messages that name it.
func isControl(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp) }

// claimName records the client_id of e in s and reports whether e may use it. The parameter
// isOwn means that e is an element of this aggregate. Such an element must have a client_id,
// and no other element of its kind may have the same one. claimName records mistakes as
// problems.
func (p *requestParser) claimName(s *names, e *xmltree.Element, isOwn bool) bool {
	id := value(e, "client_id")
	at := place{e, "client_id"}
	if id == "" {
		if isOwn {
			p.badArgs(at, "", "give it one, such as client_id=\""+s.kind+"0\"", "%s has no client_id", s.one)
		}
		return false
	}
	if isOwn && strings.ContainsFunc(id, isControl) {
		p.badArgs(at, id, "choose one of visible characters", "the client_id of %s has a line break or another control character, %.80q", s.one, id)
	}
	if isOwn && len(id) > p.o.Limits.ClientID {
		p.refuse(TooBig, at, "", raiseRemedy("choose a shorter one", "client_id"), "the client_id of %s has more than %d bytes, %.40q…", s.one, p.o.Limits.ClientID, id)
	}
	before, twice := s.seen[id]
	if twice && (isOwn || before.own) {
		p.badArgs(at, id, "rename one of them", "two %ss have the client_id %.80q, this one and the one in line %d", s.kind, id, before.line)
		s.seen[id] = firstUse{before.line, true}
		return false
	}
	if !twice {
		s.seen[id] = firstUse{e.Line, isOwn}
	}
	return true
}
