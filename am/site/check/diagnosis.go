package check

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/am/display"
	"patchbay/am/service/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/schemas/xmltree"
)

type diagnosis struct {
	name string
	text []byte
	// terms is not nil if the request was compiled from text. Then problems of the request have no place
	// in text, and names of features are those of text.
	terms            *strings.Replacer
	list             []diagnostic
	errorAt          map[[2]int]bool // line and column of each error, also of those that addProblems has merged
	errors, warnings int
}

type diagnostic struct {
	line, column int // counted from 1; 0 if unknown
	isError      bool
	text         string
}

func (r *diagnosis) add(d diagnostic) {
	if r.terms != nil {
		d.text = r.terms.Replace(d.text)
	}
	r.list = append(r.list, d)
	if d.isError {
		r.errors++
	} else {
		r.warnings++
	}
}

func (r *diagnosis) hasError(line, column int) bool {
	return slices.ContainsFunc(r.list, func(d diagnostic) bool { return d.isError && d.line == line && d.column == column })
}

// addFindings adds findings of the schema as warnings. It skips places that have an error.
func (r *diagnosis) addFindings(findings []xmltree.Finding) {
	for _, f := range findings {
		if at := [2]int{f.Line, f.Column}; !r.errorAt[at] && !r.hasError(f.Line, f.Column) {
			r.add(diagnostic{f.Line, f.Column, false, f.Msg + " (by the schema; it is accepted)"})
		}
	}
}

// addProblems adds the problems of a request: remarks as warnings, others as errors. It merges
// problems that differ only in the name of a node, link or interface. A merged problem has the
// place of the first one.
func (r *diagnosis) addProblems(list []rspec.Problem) {
	type key struct {
		isError bool
		text    string
	}
	first := map[key]int{}
	place := func(p rspec.Problem) string {
		if r.terms != nil {
			return p.ClientID
		}
		return diagnostic{line: p.Line, column: p.Column}.place()
	}
	places := map[key][]string{}
	var order []key
	r.errorAt = map[[2]int]bool{}
	for i, p := range list {
		r.errorAt[[2]int{p.Line, p.Column}] = !p.IsRemark() || r.errorAt[[2]int{p.Line, p.Column}]
		k := key{!p.IsRemark(), p.Text()}
		if p.ClientID != "" {
			k.text = strings.ReplaceAll(k.text, fmt.Sprintf("%.80q", p.ClientID), "")
		}
		if places[k] == nil {
			order, first[k] = append(order, k), i
		}
		places[k] = append(places[k], place(p))
	}
	for _, k := range order {
		p := list[first[k]]
		if r.terms != nil {
			p.Line, p.Column = 0, 0
		}
		r.add(diagnostic{p.Line, p.Column, k.isError, p.Text() + alsoAt(places[k][1:])})
	}
}

// addReasons adds reasons about parts of a request. It merges reasons with the same text. A merged
// reason has the place of the first one and the names of all. addReasons skips a reason if there is
// already an error at its place.
func (r *diagnosis) addReasons(req *rspec.Request, list []binder.Reason, isError bool) {
	type key struct{ kind, text string }
	names, first := map[key][]string{}, map[key]binder.Reason{}
	var order []key
	before := len(r.list)
	for _, x := range list {
		k := key{x.Kind, x.Text}
		if names[k] == nil {
			order, first[k] = append(order, k), x
		}
		names[k] = append(names[k], x.ClientID)
	}
	for _, k := range order {
		x := first[k]
		line, column := req.Place(x.Kind, x.ClientID, x.What)
		if r.terms != nil {
			line, column = 0, 0
		} else if line == 0 {
			line = x.Line
		}
		who := k.kind
		if x.ClientID != "" {
			who = binder.Together(k.kind, names[k])
		}
		if known := (diagnosis{list: r.list[:before]}); line == 0 || !known.hasError(line, column) {
			if !strings.HasPrefix(k.text, " ") { // a text with a leading blank continues the sentence
				who += ": "
			}
			r.add(diagnostic{line, column, isError, who + k.text})
		}
	}
}

// checkSlice is a slice that does not exist. Requests are checked as if they were for this slice.
func checkSlice(inv *inventory.Inventory) urn.URN {
	return urn.URN{Authority: inv.Authority, Type: urn.Slice, Name: "check"}
}

func (d diagnostic) place() string {
	if d.column == 0 {
		return strconv.Itoa(d.line)
	}
	return fmt.Sprintf("%d:%d", d.line, d.column)
}

// excerpts quotes lines of a text.
type excerpts struct {
	text []byte
	line int // the number of the line with which text begins
}

func newExcerpts(text []byte) *excerpts {
	return &excerpts{bytes.TrimPrefix(text, []byte("\ufeff")), 1}
}

// excerptWidth is in characters.
const excerptWidth = 100

// at returns one numbered line, with a mark below column unless column is 0. It returns "" for a
// line that does not exist. Calls must be in ascending order of lines.
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
