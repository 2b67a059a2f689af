package rspec

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"patchbay/rspec/match"
	"patchbay/schemas/xmltree"
)

// opWords are the comparisons as words, because < and > need escapes in XML.
var opWords = map[string]match.Op{
	"eq": match.Equal, "lt": match.Less, "le": match.AtMost, "gt": match.Greater, "ge": match.AtLeast,
	"=": match.Equal, "<": match.Less, "<=": match.AtMost, ">": match.Greater, ">=": match.AtLeast, "contains": match.Contains,
}

// constraintReader reads the constraints of an own node.
type constraintReader struct {
	*requestParser
	n *Node
	// required are the elements of n.Require. failed reports whether there was a mistake.
	required []*xmltree.Element
	failed   bool
}

// readConstraints reads the constraints in a node and in its first sliver type. If one of them
// has a mistake, the node gets no constraints.
func (p *requestParser) readConstraints(e *xmltree.Element, n *Node) {
	r := constraintReader{requestParser: p, n: n}
	elements := constraintsIn(e)
	if r.tooMany(elements) {
		return
	}
	var prefers []*xmltree.Element
	for _, c := range elements {
		switch c.Local {
		case "require":
			n.Require = append(n.Require, r.readRequire(c))
			r.required = append(r.required, c)
		case "prefer":
			n.Prefer = append(n.Prefer, r.readPrefer(c))
			prefers = append(prefers, c)
		case "granted", "capability": // pasted from a manifest or an advertisement
		default:
			p.remark(place{c, ""}, n.ClientID, "use require or prefer; "+ignored, "node %.80q has an unknown element <%.40s>", n.ClientID, c.Local)
		}
	}
	if !r.failed && len(n.Require)+len(n.Prefer) > 0 {
		var err error
		if n.Match, err = match.New(n.Require, n.Prefer); err != nil {
			r.explain(err, prefers)
		}
	}
	if r.failed {
		n.Require, n.Prefer, n.Match = nil, nil, nil
	}
}

// constraintsIn returns the elements of the match extension in a node and its first sliver
// type, in document order.
func constraintsIn(e *xmltree.Element) (list []*xmltree.Element) {
	types := 0
	for c := range childElements(e) {
		switch {
		case c.Space == matchSpace:
			list = append(list, c)
		case isElement(c, "sliver_type"):
			if types++; types > 1 {
				continue
			}
			for inner := range childElements(c) {
				if inner.Space == matchSpace {
					list = append(list, inner)
				}
			}
		}
	}
	return list
}

// tooMany reports whether the elements have more than match.MaxConstraints constraints, and then refuses the
// request. It reads no values, so that it is fast.
func (r *constraintReader) tooMany(elements []*xmltree.Element) bool {
	count := 0
	isBeyond := func(e *xmltree.Element) bool { // counts e
		if count++; count == match.MaxConstraints+1 {
			r.badArgs(place{e, ""}, r.n.ClientID, "leave some out", "node %.80q has more than %d constraints", r.n.ClientID, match.MaxConstraints)
		}
		return count > match.MaxConstraints
	}
	for _, e := range elements {
		if e.Local == "require" && isBeyond(e) {
			return true
		}
		if e.Local != "prefer" {
			continue
		}
		inner := 0
		for c := range childElements(e) {
			if c.Space == matchSpace && c.Local == "require" {
				if inner++; isBeyond(c) {
					return true
				}
			}
		}
		if inner == 0 && isBeyond(e) { // a mistake: a preference without a constraint
			return true
		}
	}
	return false
}

func (r *constraintReader) badArgs(at place, clientID, remedy, format string, args ...any) {
	r.failed = true
	r.requestParser.badArgs(at, clientID, remedy, format, args...)
}

// constraintOf returns the constraint of a require element. known is false for an unknown comparison.
func constraintOf(e *xmltree.Element) (c match.Constraint, known bool) {
	c = match.Constraint{Feature: trimmed(e, "feature"), Op: match.Equal, Value: trimmed(e, "value")}
	op, given := e.Attr("", "op")
	if !given {
		return c, true
	}
	c.Op, known = opWords[strings.TrimSpace(op)]
	return c, known
}

// requirementIn returns the element in a node whose constraint has the text; nil if there is none.
// It looks in preferences last.
func requirementIn(e *xmltree.Element, text string) *xmltree.Element {
	list := constraintsIn(e)
	for _, p := range list {
		if p.Local == "prefer" {
			list = slices.AppendSeq(list, childElements(p))
		}
	}
	for _, c := range list {
		if required, known := constraintOf(c); known && c.Local == "require" && required.String() == text {
			return c
		}
	}
	return nil
}

func (r *constraintReader) readRequire(e *xmltree.Element) match.Constraint {
	id := r.n.ClientID
	r.remarkAttributes(e, "feature", "op", "value")
	c, known := constraintOf(e)
	op, _ := e.Attr("", "op")
	switch {
	case c.Feature == "":
		r.badArgs(place{e, "feature"}, id, `add one, such as feature="cpu.count"`, "node %.80q has a constraint without a feature", id)
	case !known:
		r.badArgs(place{e, "op"}, id, "use eq, lt, le, gt, ge or contains", "node %.80q has a constraint on %.64q with op=%.40q", id, c.Feature, op)
	case c.Value == "":
		r.badArgs(place{e, "value"}, id, "add the value to compare with", "node %.80q has a constraint on %.64q without a value", id, c.Feature)
	case strings.ContainsFunc(c.Value, func(x rune) bool { return !unicode.IsPrint(x) }):
		r.badArgs(place{e, "value"}, id, "write one line of text", "node %.80q has a constraint on %.64q whose value has control characters", id, c.Feature)
	}
	return c
}

func (r *constraintReader) readPrefer(e *xmltree.Element) match.Preference {
	id := r.n.ClientID
	r.remarkAttributes(e, "weight")
	weight, err := strconv.Atoi(trimmed(e, "weight"))
	if err != nil || weight < 1 || weight > match.MaxWeight {
		r.badArgs(place{e, "weight"}, id, "write a whole number from 1 to "+strconv.Itoa(match.MaxWeight), "node %.80q has a preference with weight=%.40q", id, value(e, "weight"))
	}
	p := match.Preference{Weight: weight}
	for c := range childElements(e) {
		switch {
		case c.Space != matchSpace:
		case c.Local == "require":
			p.Constraints = append(p.Constraints, r.readRequire(c))
		default:
			r.remark(place{c, ""}, id, "use require; "+ignored, "node %.80q has an unknown element <%.40s> in a preference", id, c.Local)
		}
	}
	if len(p.Constraints) == 0 {
		r.badArgs(place{e, ""}, id, "add a require to it, or leave it out", "node %.80q has a preference without a constraint", id)
	}
	return p
}

// remarkAttributes adds a remark for each unprefixed attribute that is not in names.
func (r *constraintReader) remarkAttributes(e *xmltree.Element, names ...string) {
	for _, a := range e.Attrs {
		if a.Space == "" && !slices.Contains(names, a.Local) {
			r.remark(place{e, a.Local}, r.n.ClientID, "use "+strings.Join(names, ", ")+"; "+ignored, "node %.80q has a <%s> with an unknown attribute %.40q", r.n.ClientID, e.Local, a.Local)
		}
	}
}

// explain records a problem for err, the error of match.New, at each element that is wrong by itself. If there
// is none, the constraints are in conflict, and explain records one problem: at the second constraint of the
// conflict, or at the first constraint of the node if err names none.
func (r *constraintReader) explain(err error, prefers []*xmltree.Element) {
	for i, c := range r.n.Require {
		if _, err := match.New([]match.Constraint{c}, nil); err != nil {
			r.refuseConstraint(r.required[i], err)
		}
	}
	for i, p := range r.n.Prefer {
		if _, err := match.New(nil, []match.Preference{p}); err != nil {
			r.refuseConstraint(prefers[i], err)
		}
	}
	if r.failed {
		return
	}
	at := r.required[0]
	if conflict, ok := errors.AsType[*match.ConflictError](err); ok {
		for i, c := range r.n.Require {
			if c == conflict.Second {
				at = r.required[i]
			}
		}
	}
	r.refuseConstraint(at, err)
}

func (r *constraintReader) refuseConstraint(at *xmltree.Element, err error) {
	remedy := "correct the constraint, or leave it out"
	if conflict, ok := errors.AsType[*match.ConflictError](err); ok && conflict.First != conflict.Second {
		remedy = "change one of the two, or leave it out"
	}
	r.badArgs(place{at, ""}, r.n.ClientID, remedy, "node %.80q has a wrong constraint: %v", r.n.ClientID, err)
}
