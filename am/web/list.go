package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
)

var listRoutes = []route{
	{"GET /ui/operator/slices", operators, (*request).showSlices, nil},
	{"GET /ui/operator/slice", operators, with((*request).sliceOfQuery, (*request).showSlice), (*request).sliceRevision},
	{"GET /ui/operator/nodes", operators, (*request).showNodes, nil},
	{"GET /ui/operator/members", operators, (*request).showMembers, nil},
	{"POST /ui/operator/release", operators, (*request).release, nil},
	{"POST /ui/operator/renew", operators, (*request).renew, nil},
	{"POST /ui/operator/shutdown", operators, (*request).shutDown, nil},
	{"POST /ui/operator/thaw", operators, (*request).thaw, nil},
	{"POST /ui/operator/members/link", operators, (*request).linkMember, nil},
	{"POST /ui/operator/members/sign-out", operators, (*request).signOutMembers, nil},
}

// maxRows limits the rows of a list on a page.
const maxRows = 300

// listBody is the data of templates/slices.html and templates/nodes.html.
type listBody struct {
	sent
	Search  form
	States  []string // that can be selected
	Rows    any
	More    bool   // there are more rows
	Problem string // why there is no list
}

// showSlices lists slices.
func (q *request) showSlices() error {
	return showList[operate.Slice](q, "slices", operate.SliverStates, operate.Filter{Slice: q.part("q")})
}

// showNodes lists components.
func (q *request) showNodes() error {
	return showList[operate.Node](q, "nodes", operate.NodeStates, operate.Filter{Component: q.part("q")})
}

// showList lists what the filter and the query of the page select, or says why it cannot.
func showList[T any](q *request, name string, states []string, f operate.Filter) (err error) {
	v := q.r.URL.Query()
	f.User, f.State, f.Shutdown, f.Limit = q.part("user"), v.Get("state"), v.Get("shutdown") != "", maxRows+1
	if text := timeText(v, "ends"); text != "" {
		if f.EndsBefore, err = operate.ParseFuture("", text, q.now); err != nil {
			err = badRequest("Give a time, or a duration from now such as 8h.")
		}
	}
	var found []T
	if err == nil {
		found, err = list[T](q, name, f)
	}
	x := listBody{q.sent(), form{ID: "search", Values: v}, states, found[:min(len(found), maxRows)], len(found) > maxRows, reasonOf(err)}
	return q.render(page{Name: name, Title: strings.ToUpper(name[:1]) + name[1:], Tab: name, Body: x})
}

// part returns patterns for names that contain a word of a key of the page's query. Words with pattern characters, ranges and
// URNs stay.
func (q *request) part(key string) string {
	words := strings.FieldsFunc(q.r.URL.Query().Get(key), func(r rune) bool { return r == ',' || r == ' ' })
	for i, w := range words {
		if !strings.ContainsAny(w, "*?") && !strings.Contains(w, "..") && !strings.HasPrefix(strings.ToLower(w), "urn:") {
			words[i] = "*" + strings.ReplaceAll(w, "/", "*/*") + "*"
		}
	}
	return strings.Join(words, ",")
}

// reasonOf returns the text of an error without a title; "" for nil.
func reasonOf(err error) string {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.text
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// namesOf returns the names of users.
func namesOf(users []urn.URN) string {
	var names []string
	for _, u := range users {
		names = append(names, u.Name)
	}
	return someOf(names)
}

// someOf lists the first names, and the number of the others.
func someOf(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// sliceBody is the data of templates/slice.html.
type sliceBody struct {
	sent
	operate.Slice
	Slivers []operate.Sliver
	Journal []doing
}

// WhyShutDown returns the reason that the operator gave; "" for none.
func (x *sliceBody) WhyShutDown() string {
	for _, d := range x.Journal {
		if am.Event(d.Event) == am.EventShutdown {
			return d.Text
		}
	}
	return ""
}

// sliceOfQuery returns the slice that the query of a page names.
func (q *request) sliceOfQuery() (urn.URN, error) {
	u, err := urn.Parse(q.r.URL.Query().Get("urn"))
	if err != nil || u.Type != urn.Slice {
		return u, errNotFound
	}
	return u, nil
}

// showSlice shows one slice with its slivers and its journal.
func (q *request) showSlice(u urn.URN) error {
	x := sliceBody{sent: q.sent(), Slice: operate.Slice{URN: u}}
	f := operate.Filter{Slice: u.String()}
	found, err := list[operate.Slice](q, "slices", f)
	if _, isGone := errors.AsType[*problem](err); err != nil && !isGone {
		return err
	}
	names := map[string]string{}
	if len(found) > 0 {
		x.Slice = found[0]
		x.Slivers, err = list[operate.Sliver](q, "slivers", f)
		if _, isGone := errors.AsType[*problem](err); err != nil && !isGone {
			return err
		}
		for _, s := range x.Slivers {
			names[s.URN.String()] = s.ClientID
		}
	}
	f.Limit = maxRows
	entries, err := list[operate.Entry](q, "journal", f)
	if err != nil {
		return err
	}
	if len(found)+len(entries) == 0 {
		return errNotFound
	}
	for _, e := range slices.Backward(entries) {
		x.Journal = append(x.Journal, operatorsDoing(e, names))
	}
	return q.render(page{Name: "slice", Title: u.Name, Tab: "slices", Body: &x})
}

// sliceRevision returns a number that differs after each change of the slice of the query.
func (q *request) sliceRevision() (uint64, error) {
	u, err := q.sliceOfQuery()
	if err != nil {
		return 0, err
	}
	return q.SliceRevision(u)
}

// targets returns the ticked slivers of a form, or its whole slice if the button says all.
func (q *request) targets() ([]string, error) {
	if q.r.PostFormValue("which") == "all" {
		return []string{q.r.PostFormValue("slice")}, nil
	}
	if list := q.r.PostForm["target"]; len(list) > 0 {
		return list, nil
	}
	return nil, badRequest("Tick the nodes first.")
}

// carryOut sends an order of the form about slivers, and answers with what was done.
func (q *request) carryOut(path string, order func(reason string) (any, error), said func(*operate.Result, *operate.SliceResult) string) error {
	var result operate.Result
	reason, err := q.reason()
	if err == nil {
		var o any
		if o, err = order(reason); err == nil {
			err = q.order(path, o, &result)
		}
	}
	if err != nil {
		return q.refuse(err)
	}
	var all []notice
	for i := range result.Slices {
		all = append(all, done("%s", said(&result, &result.Slices[i])))
	}
	for _, text := range result.Warnings {
		all = append(all, done("Note: %s", text))
	}
	return q.redirect(q.back(), all...)
}

// release releases slivers, or all of a slice.
func (q *request) release() error {
	return q.carryOut("/release", func(reason string) (any, error) {
		list, err := q.targets()
		return operate.Release{Targets: list, Frozen: q.r.PostFormValue("frozen") != "", Text: reason, Operator: q.visitor.Operator}, err
	}, func(_ *operate.Result, s *operate.SliceResult) string {
		text := fmt.Sprintf("Released: %s of slice %s (%s).", display.Count(s.Slivers, "sliver"), s.Slice.Name, someOf(s.ClientIDs))
		if s.Removing > 0 {
			text += fmt.Sprintf(" Waiting for providers to remove %s.", display.Count(s.Removing, "sliver"))
		}
		if s.Shutdown {
			text += " The slice stays shut down."
		}
		return text
	})
}

// renew changes the end of leases.
func (q *request) renew() error {
	return q.carryOut("/renew", func(reason string) (any, error) {
		list, err := q.targets()
		if err != nil {
			return nil, err
		}
		end, err := q.leaseEnd()
		return operate.Renew{Targets: list, End: end, Over: q.r.PostFormValue("over") == "yes", Text: reason, Operator: q.visitor.Operator}, err
	}, func(_ *operate.Result, s *operate.SliceResult) string {
		return fmt.Sprintf("The leases of %s of slice %s (%s) end at %s.", display.Count(s.Slivers, "sliver"), s.Slice.Name, someOf(s.ClientIDs), inUTC(s.Expires))
	})
}

// shutDown shuts a slice down.
func (q *request) shutDown() error {
	return q.carryOut("/shutdown", func(reason string) (any, error) {
		return operate.Shutdown{Slice: q.r.PostFormValue("slice"), Text: reason, Operator: q.visitor.Operator}, nil
	}, func(_ *operate.Result, s *operate.SliceResult) string {
		return fmt.Sprintf("Shut down: %s of slice %s (%s).", display.Count(s.Slivers, "sliver"), s.Slice.Name, someOf(s.ClientIDs))
	})
}

// thaw lifts the shutdown of a slice.
func (q *request) thaw() error {
	return q.carryOut("/thaw", func(reason string) (any, error) {
		o := operate.Thaw{Slice: q.r.PostFormValue("slice"), ReleaseExpired: q.r.PostFormValue("release") != "", Over: q.r.PostFormValue("over") == "yes", Text: reason, Operator: q.visitor.Operator}
		var err error
		if timeText(q.r.PostForm, "end") != "" {
			o.Extend, err = q.leaseEnd()
		}
		return o, err
	}, func(r *operate.Result, s *operate.SliceResult) string {
		text := fmt.Sprintf("Slice %s is no longer shut down; it has %s.", s.Slice.Name, display.Count(s.Slivers, "sliver"))
		switch {
		case s.Slivers == 0:
		case !s.Expires.After(r.At):
			text += " The first lease ended at " + inUTC(s.Expires) + ", so it is released."
		case s.Nodes > 0:
			text += " The nodes are off; the first lease ends at " + inUTC(s.Expires) + "."
		}
		return text
	})
}

// membersBody is the data of templates/members.html.
type membersBody struct {
	sent
	Search, Project string
	Projects        []authority.Group
	Members         []memberRow
	Link            *signInLink // that was just made
	Problem         string
}

type memberRow struct {
	authority.Listed
	authority.SignIns
}

// Name returns the name of a person; "" if it is unknown.
func (m memberRow) Name() string { return strings.TrimSpace(m.FirstName + " " + m.LastName) }

// signInLink is a link of a member, as the orders answer.
type signInLink struct {
	For  string    `json:"-"`
	URL  string    `json:"url"`
	Ends time.Time `json:"ends"`
}

// showMembers lists the members of the authority, or those of a project.
func (q *request) showMembers() error { return q.membersPage(q.r.URL.Query(), nil) }

func (q *request) membersPage(v url.Values, link *signInLink) error {
	x, err := q.readMembers(v.Get("q"), v.Get("project"))
	if p, ok := errors.AsType[*problem](err); ok && p != errNotFound { // a site without a trial authority has no members
		x.Problem = p.text
	} else if err != nil {
		return err
	}
	x.sent, x.Link = sent{Path: "/ui/operator/members?" + url.Values{"q": {x.Search}, "project": {x.Project}}.Encode()}, link
	return q.render(page{Name: "members", Title: "Members", Tab: "members", Body: x})
}

// readMembers returns the members whose names or emails contain search, of a project if it is not "".
func (q *request) readMembers(search, project string) (x membersBody, err error) {
	x.Search, x.Project = search, project
	if err = q.operate("/authority/projects", nil, &x.Projects); err != nil {
		return x, err
	}
	var in map[string]bool // nil for all
	for _, p := range x.Projects {
		if p.URN.Name == project {
			in = map[string]bool{}
			for _, m := range p.Members {
				in[m.Member.Key()] = true
			}
		}
	}
	if in == nil && project != "" {
		return x, errNotFound
	}
	var list []authority.Listed
	if err = q.operate("/authority/members", nil, &list); err != nil {
		return x, err
	}
	signIns, err := q.Authority.SignIns(q.now)
	for _, m := range list {
		text := strings.ToLower(m.URN.Name + " " + m.FirstName + " " + m.LastName + " " + m.Email)
		if (in == nil || in[m.URN.Key()]) && strings.Contains(text, strings.ToLower(search)) {
			x.Members = append(x.Members, memberRow{m, signIns[m.URN.Key()]})
		}
	}
	slices.SortStableFunc(x.Members, func(a, b memberRow) int { return naturalOrder(a.URN.Name, b.URN.Name) })
	return x, err
}

// memberOrder is an order to the trial authority about a member.
type memberOrder struct {
	Name     string        `json:"name"`
	Life     time.Duration `json:"life,omitempty"`
	Operator string        `json:"operator"`
}

// linkMember makes a sign-in link of a member, and shows it once.
func (q *request) linkMember() error {
	name := q.r.PostFormValue("name")
	var answer struct{ Link *signInLink }
	err := q.order("/authority/link", memberOrder{name, authority.LinkLife, q.visitor.Operator}, &answer)
	switch {
	case err != nil:
		return q.refuse(err)
	case answer.Link == nil:
		return &problem{http.StatusConflict, "There is no link", "The site serves no pages."}
	}
	answer.Link.For = name
	return q.membersPage(q.r.PostForm, answer.Link)
}

// signOutMembers ends the sessions and links of one member, or of all members of a project.
func (q *request) signOutMembers() error {
	names, project := []string{q.r.PostFormValue("name")}, q.r.PostFormValue("project")
	if names[0] == "" {
		x, err := q.readMembers("", project)
		if err != nil {
			return err
		}
		names = nil
		for _, m := range x.Members {
			names = append(names, m.URN.Name)
		}
	}
	ended := 0
	for _, name := range names {
		var answer struct{ Number int }
		if err := q.order("/authority/sign-out", memberOrder{Name: name, Operator: q.visitor.Operator}, &answer); err != nil {
			return q.refuse(err)
		}
		ended += answer.Number
	}
	return q.redirect(q.back(), done("Signed out: %s (%s). Their links have ended too.", someOf(names), display.Count(ended, "session")))
}

// naturalOrder compares names as people sort them: student2 before student10.
func naturalOrder(a, b string) int {
	return cmp.Or(strings.Compare(padNumbers(a), padNumbers(b)), cmp.Compare(len(a), len(b)))
}

var number = regexp.MustCompile(`\d+`)

// padNumbers makes the numbers in a name equally long. Names have at most 32 characters.
func padNumbers(name string) string {
	return number.ReplaceAllStringFunc(name, func(n string) string { return strings.Repeat("0", max(0, 32-len(n))) + n })
}
