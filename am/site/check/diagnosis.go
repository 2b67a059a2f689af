package check

import (
	"fmt"
	"strconv"

	"patchbay/am/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/schemas/xmltree"
)

// diagnosis is all there is to say about one file.
type diagnosis struct {
	name             string
	text             []byte
	list             []diagnostic
	errors, warnings int
}

// diagnostic is one thing to say about a place in a file.
type diagnostic struct {
	line, column int // counted from 1; 0 if unknown
	isError      bool
	text         string
}

func (r *diagnosis) add(d diagnostic) {
	r.list = append(r.list, d)
	if d.isError {
		r.errors++
	} else {
		r.warnings++
	}
}

// addFindings adds what a schema says, except where an error is told already.
func (r *diagnosis) addFindings(findings []xmltree.Finding) {
	told := map[[2]int]bool{}
	for _, d := range r.list {
		if d.isError {
			told[[2]int{d.line, d.column}] = true
		}
	}
	for _, f := range findings {
		if !told[[2]int{f.Line, f.Column}] {
			r.add(diagnostic{f.Line, f.Column, false, f.Msg + " (by the schema; it is tolerated)"})
		}
	}
}

// reason adds why a node or link cannot be had.
func (r *diagnosis) reason(req *rspec.Request, x binder.Reason, isError bool) {
	line, column := begins(req, x)
	r.add(diagnostic{line, column, isError, fmt.Sprintf("%s %.80q: %s", x.Kind, x.ClientID, x.Text)})
}

// begins is where the node or link of a reason begins.
func begins(req *rspec.Request, reason binder.Reason) (line, column int) {
	if n, ok := req.Node(reason.ClientID); ok && n.Line == reason.Line {
		return n.Line, n.Column
	}
	for i := range req.Links {
		if l := &req.Links[i]; l.ClientID == reason.ClientID && l.Line == reason.Line {
			return l.Line, l.Column
		}
	}
	return reason.Line, 0
}

// nobodys is the slice in which a request is checked.
func nobodys(inv *inventory.Inventory) urn.URN {
	return urn.URN{Authority: inv.Authority, Type: urn.Slice, Name: "check"}
}

// place is LINE or LINE:COLUMN.
func (d diagnostic) place() string {
	if d.column == 0 {
		return strconv.Itoa(d.line)
	}
	return fmt.Sprintf("%d:%d", d.line, d.column)
}
