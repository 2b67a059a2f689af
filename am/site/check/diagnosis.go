package check

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/am/binder"
	"patchbay/am/display"
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

// excerpts shows lines of a text with a mark below a column.
type excerpts struct {
	text []byte
	line int // of text[0]
}

func newExcerpts(text []byte) *excerpts {
	return &excerpts{bytes.TrimPrefix(text, []byte("\ufeff")), 1}
}

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// at shows one line, indented and numbered; below it a mark if column is not 0.
// Lines must be asked for in ascending order. The answer is empty for a line
// that is not there.
func (x *excerpts) at(line, column int) string {
	for ; x.line < line; x.line++ {
		end := bytes.IndexByte(x.text, '\n')
		if end < 0 {
			return ""
		}
		x.text = x.text[end+1:]
	}
	if line < 1 || line > x.line {
		return ""
	}
	text, _, _ := bytes.Cut(x.text, []byte("\n"))
	runes := []rune(strings.ReplaceAll(string(bytes.TrimSuffix(text, []byte("\r"))), "\t", " "))
	at := min(max(column-1, 0), len(runes))
	before, after := runes[:at], runes[at:]
	if at > excerptWidth/2 {
		before = append([]rune("…"), before[at-excerptWidth/2:]...)
	}
	if room := excerptWidth - len(before); len(after) > room {
		after = append(slices.Clone(after[:room]), '…')
	}
	shown := display.Printable(string(before))
	out := fmt.Sprintf("%6d | %s%s\n", line, shown, display.Printable(string(after)))
	if column > 0 {
		out += fmt.Sprintf("%6s | %s^\n", "", strings.Repeat(" ", utf8.RuneCountInString(shown)))
	}
	return out
}
