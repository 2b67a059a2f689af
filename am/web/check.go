package web

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/rspec"
	"patchbay/rspec/compile"
	"patchbay/rspec/view"
	"patchbay/schemas/xmltree"
)

// checkBody is what the template check shows: what a text describes, and whether it fits.
type checkBody struct {
	lines    []string // of the text
	Mistakes []mistake
	Picture  template.HTML
	Summary  string
	// Reason says why the request does not fit now; "" if it fits.
	Reason string
	// IsAhead means that the nodes begin later, so what fits now does not matter. FitsThen means that there is room then.
	IsAhead, FitsThen bool
	// FirstStart and LongestEnd are times with room, after a refusal for lack of it; zero if they are unknown.
	FirstStart, LongestEnd time.Time
	// Request is what is sent; nil after a mistake. compiled has it for a source.
	Request  []byte
	compiled *compile.Result
	fits     operate.Fits
	needs    []need
}

// need counts the nodes of a type that a request has, and those of the site.
type need struct {
	name               string
	count, free, total int
}

// mistake is a mistake or a warning, at a line of the text that is Source; Line is 0 for none.
type mistake struct {
	Line         int
	Source, Text string
	IsWarning    bool
}

// checkStart answers with the result of a check as a part of a page.
func (q *request) checkStart() error {
	x, err := q.examine(q.r.FormValue("text"))
	var b bytes.Buffer
	if err == nil {
		begin, _ := parseInput(q.r.FormValue("begin"))
		x.setAhead(begin.After(q.now))
		err = q.templates["start"].ExecuteTemplate(&b, "check", x)
	}
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, htmlType, b.Bytes())
}

// setAhead leaves out what does not fit now if the nodes begin later.
func (x *checkBody) setAhead(isAhead bool) {
	if x.IsAhead = isAhead; isAhead {
		x.Reason = ""
	}
}

// BeginAt and EndAt are the values of the buttons after a refusal for lack of room.
func (x *checkBody) BeginAt() string { return inputText(x.FirstStart) }
func (x *checkBody) EndAt() string   { return inputText(x.LongestEnd) }

// examine reads a request or a source: it finds the mistakes, draws what it describes, and asks what fits now. It reserves
// nothing.
func (q *request) examine(text string) (x *checkBody, err error) {
	x = &checkBody{lines: strings.Split(text, "\n"), Summary: "There is no request yet. Write or paste one."}
	if strings.TrimSpace(text) == "" {
		return x, nil
	}
	select {
	case q.checks <- struct{}{}:
		defer func() { <-q.checks }()
	case <-q.r.Context().Done():
		return nil, q.r.Context().Err()
	}
	request := []byte(text)
	if isXML := strings.HasPrefix(strings.TrimLeft(text, "\ufeff \t\r\n"), "<"); !isXML || compile.Language(request) != "" {
		o, err := q.CompileOptions()
		if err != nil {
			return x, err
		}
		o.Work = rspec.NewWork(q.r.Context())
		r, err := compile.Compile(request, o)
		if refused, ok := errors.AsType[*compile.Error](err); ok {
			x.add(refused.Problems)
			return x, nil
		}
		if err != nil {
			return x, err
		}
		x.add(r.Remarks)
		x.compiled, request = r, r.Request
	}
	r, problems := rspec.Check(request, rspec.ReadOptions{Managers: []urn.URN{q.Manager}, CopyCrossLinks: true})
	if x.add(problems); r == nil {
		return x, nil
	}
	d, err := view.Read(request, xmltree.Limits{})
	if err != nil {
		return x, err
	}
	x.Picture, x.Summary = picture(d, "The network that the request describes"), display.Count(len(d.Nodes), "node")
	if len(d.Links) > 0 {
		x.Summary += " and " + display.Count(len(d.Links), "link")
	}
	err = q.operate("/fits", request, &x.fits)
	if refused, ok := errors.AsType[*problem](err); ok {
		x.refuse(refused.text)
		return x, nil
	}
	reason := x.ofSource(x.fits.Reason)
	if slices.ContainsFunc(x.fits.Nodes, func(n operate.NodeFit) bool { return len(n.Fits)+len(n.Obstacles) == 0 }) { // it never fits
		x.refuse(reason)
		return x, err
	}
	if err == nil {
		err = x.count(q)
	}
	if slices.ContainsFunc(x.Mistakes, func(m mistake) bool { return !m.IsWarning }) {
		return x, err
	}
	if x.Request = request; reason != "" {
		x.Reason = reason + q.nextFree(x.fits.Nodes)
	} else {
		x.Reason = q.Alert()
	}
	return x, err
}

// count fills in needs. It refuses a request for more nodes of a type than the site has.
func (x *checkBody) count(q *request) error {
	counts := map[string]int{}
	for _, n := range x.fits.Nodes {
		counts[n.SliverType]++
	}
	free, err := q.Free()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := need{name: name, count: counts[name]}
		for _, t := range free.Types {
			if t.Name == name {
				n.total, n.free = n.total+t.Total, n.free+t.Free
			}
		}
		if x.needs = append(x.needs, n); n.count > n.total {
			x.refuse(fmt.Sprintf("It needs %d %s, and this site has %d.", n.count, name, n.total))
		}
	}
	return err
}

// ofSource returns a text about the request with the terms of the source, if there is one.
func (x *checkBody) ofSource(text string) string {
	if x.compiled == nil {
		return text
	}
	return client.Reply{Output: text}.ForSource(x.compiled.Terms).Output
}

// nextFree says when a node of the types that the request has is free again, as far as the site knows.
func (q *request) nextFree(nodes []operate.NodeFit) (text string) {
	free, err := q.Free()
	for _, t := range free.Types {
		isType := func(n operate.NodeFit) bool { return n.SliverType == t.Name }
		if err == nil && !t.NextFree.IsZero() && slices.ContainsFunc(nodes, isType) {
			text += "\nThe next " + t.Name + " is free at about " + inUTC(t.NextFree) + "."
		}
	}
	return text
}

// add adds problems of the text. The lines of a compiled request are not those of the source.
func (x *checkBody) add(list []rspec.Problem) {
	for _, p := range list {
		m := mistake{Text: p.Text(), IsWarning: p.IsRemark()}
		if p.Line > 0 && p.Line <= len(x.lines) && x.compiled == nil {
			m.Line, m.Source = p.Line, display.Cut(strings.TrimSpace(x.lines[p.Line-1]), 120)
		}
		if x.Summary = ""; !m.IsWarning {
			x.Summary = "It cannot be started as it is."
		}
		x.Mistakes = append(x.Mistakes, m)
	}
}

// atLine matches a line of a refusal about a place in the text.
var atLine = regexp.MustCompile(`^(?:from )?line (\d+)(?::\d+)?: (.*)$`)

// reasons separates the reasons of a refusal.
var reasons = strings.NewReplacer("; line ", "\nline ", "; from line ", "\nfrom line ")

// refuse adds the lines of a refusal as mistakes.
func (x *checkBody) refuse(refusal string) {
	for line := range strings.Lines(reasons.Replace(refusal)) {
		p := rspec.Problem{Kind: rspec.BadArgs, Msg: strings.TrimSpace(line)}
		if found := atLine.FindStringSubmatch(p.Msg); found != nil {
			p.Line, _ = strconv.Atoi(found[1])
			p.Msg = found[2]
		}
		x.add([]rspec.Problem{p})
	}
	x.Request, x.Reason = nil, ""
}
