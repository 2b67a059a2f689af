package web

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
)

var classRoutes = []route{
	{"GET /ui/class", members, (*request).showClasses, nil},
	{"GET /ui/class/{project}", members, with((*request).class, (*request).showClass), (*request).classRevision},
	{"POST /ui/class/{project}/request", members, with((*request).class, (*request).setClassRequest), nil},
	{"POST /ui/class/{project}/extend", members, with((*request).class, (*request).extendClass), nil},
	{"POST /ui/class/{project}/end", members, with((*request).class, (*request).endClass), nil},
	{"POST /ui/class/{project}/link", members, with((*request).class, (*request).linkStudent), nil},
}

// classBody is the data of templates/class.html.
type classBody struct {
	*authority.Class
	Path, Summary    string
	Rows             []classRow
	Waiting, Running int    // students without nodes, and experiments with nodes
	Text             string // the request, or one that was refused
	Check            *checkBody
	IsRefused        bool
	Link             *signInLink
	Ending           []*sliceRecord // to be confirmed
}

// classRow is an experiment of a student, or a student without one.
type classRow struct {
	authority.Student
	Slice          *sliceRecord // nil for none
	State, Summary string
	Ends           time.Time // of the lease that ends first; zero without nodes
	Begins         time.Time // zero if a node has begun
}

// Name returns the name of the student as a person; "" if it is unknown.
func (r classRow) Name() string { return strings.TrimSpace(r.FirstName + " " + r.LastName) }

// showClasses lists the projects that the visitor teaches. With only one, it goes there.
func (q *request) showClasses() error {
	list, err := q.Authority.Classes(q.visitor.Member)
	if err != nil {
		return err
	}
	if len(list) == 1 {
		return &redirect{"/ui/class/" + list[0].Name}
	}
	return q.render(page{Name: "classes", Title: "Class", Tab: "class", Body: list})
}

// class returns the project of the path, if the visitor teaches it.
func (q *request) class() (*authority.Class, error) {
	u := urn.URN{Authority: q.Authority.URN().Authority, Type: urn.Project, Name: q.r.PathValue("project")}
	c, err := q.Authority.Class(u, q.visitor.Member, q.now)
	if e, ok := errors.AsType[*authority.Error](err); ok && e.Code == authority.Authorization {
		err = errNotFound
	}
	return &c, err
}

// recordOf returns the record of a slice of a class.
func recordOf(c *authority.Class, g authority.Group) *sliceRecord {
	return &sliceRecord{URN: g.URN, Project: c.URN, Created: g.Created, Expires: g.Expires}
}

// showClass shows the experiments of all students.
func (q *request) showClass(c *authority.Class) error {
	return q.renderClass(q.newClassBody(c), http.StatusOK)
}

// newClassBody returns the body of a page about a class with its request, and a row for each experiment and each student
// without one.
func (q *request) newClassBody(c *authority.Class) (x classBody) {
	x = classBody{Class: c, Path: "/ui/class/" + c.URN.Name, Text: string(c.Request)}
	counts := map[string]int{}
	present := 0
	for _, s := range c.Students {
		if s.Removed.IsZero() {
			present++
		}
		for _, r := range q.rowsOf(c, s) {
			if s.Removed.IsZero() || !r.Ends.IsZero() || r.State == unavailable {
				x.Rows = append(x.Rows, r)
			}
		}
	}
	for _, r := range x.Rows {
		if counts[r.State]++; !r.Ends.IsZero() {
			x.Running++
		}
	}
	rank := func(r classRow) int { return slices.Index(classStates, r.State) }
	slices.SortFunc(x.Rows, func(a, b classRow) int { return cmp.Or(rank(a)-rank(b), naturalOrder(a.URN.Name, b.URN.Name)) })
	_, texts := countStates(counts, classStates)
	x.Waiting = max(0, present-x.Running)
	x.Summary = strings.TrimSuffix(display.Count(present, "student")+": "+texts, ": ")
	if len(x.Rows) > present {
		x.Summary = display.Count(present, "student") + ", " + display.Count(len(x.Rows), "experiment") + ": " + texts
	}
	return x
}

// renderClass shows a page about a class.
func (q *request) renderClass(x classBody, status int) error {
	if x.Check == nil && q.r.Header.Get(refreshHeader) == "" { // the script does not refresh the request
		if err := x.examine(q); err != nil {
			return err
		}
	}
	return q.render(page{Name: "class", Title: x.URN.Name, Tab: "class", Status: status, Body: x})
}

// States of rows without slivers.
const (
	unavailable  = "unavailable" // the nodes cannot be read
	withoutNodes = "no nodes"
	notStarted   = "not started"
	ended        = "ended"
)

// classStates are the states of experiments, those that need help first.
var classStates = slices.Concat([]string{unavailable}, stateOrder[:len(stateOrder)-2], []string{notStarted, ended, "ready"})

// examine checks the request, and warns if it does not fit for all who wait.
func (x *classBody) examine(q *request) (err error) {
	if x.Check, err = q.examine(x.Text); err != nil || x.Check.Request == nil {
		return err
	}
	for _, n := range x.Check.needs {
		if n.count*len(x.Students) > n.total {
			x.Check.Mistakes = append(x.Check.Mistakes, mistake{IsWarning: true, Text: fmt.Sprintf("Not all can have it at the same time. It needs %d %s for each of %s; this site has %d.",
				n.count, n.name, display.Count(len(x.Students), "student"), n.total)})
		} else if n.count*x.Waiting > n.free {
			x.Check.Mistakes = append(x.Check.Mistakes, mistake{IsWarning: true, Text: fmt.Sprintf("Not all can start it now. It needs %d %s for each student; %d are free for %s without nodes.",
				n.count, n.name, n.free, display.Count(x.Waiting, "student"))})
		}
	}
	return nil
}

// rowsOf returns a row for each experiment of a student, at least one. It asks the aggregate once for each slice.
func (q *request) rowsOf(c *authority.Class, s authority.Student) (rows []classRow) {
	for _, g := range s.Slices {
		r := classRow{Student: s, Slice: recordOf(c, g), State: notStarted, Summary: "refused at the start"}
		_, list, err := q.openWithNodes(*r.Slice)
		var entries []operate.Entry
		if err == nil && len(list) == 0 {
			entries, err = q.journalOf(*r.Slice)
		}
		switch {
		case err != nil:
			r.State, r.Summary = unavailable, errorText(err)
		case len(entries) > 0:
			last := doingOf(entries[len(entries)-1], nil)
			r.State, r.Summary = ended, last.Who+" "+last.What
		case len(list) > 0:
			r.State, _ = summarize(list)
			if w := waitingOf(list, q.now); w.IsAll {
				r.Begins = w.Begins
			}
			if r.Ends, r.Summary = experiment.EarliestEnd(list), ""; r.State != "ready" {
				r.Summary = ready(list)
			}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		rows = []classRow{{Student: s, State: notStarted}}
	}
	return rows
}

// ready counts the slivers that are ready, such as "1 of 2 ready".
func ready(list []client.Sliver) string {
	n := len(slices.DeleteFunc(slices.Clone(list), func(v client.Sliver) bool { return experiment.StateWord(v) != "ready" }))
	return fmt.Sprintf("%d of %d ready", n, len(list))
}

// openWithNodes opens a slice, and returns its slivers; none if it has no nodes.
func (q *request) openWithNodes(s sliceRecord) (o *opened, list []client.Sliver, err error) {
	if o, err = q.open(s); err == nil {
		list, err = o.status(q)
	}
	return o, list, err
}

// classRevision returns a number that differs after each change of the experiments of the class of the path.
func (q *request) classRevision() (n uint64, err error) {
	c, err := q.class()
	for _, s := range c.Students {
		for _, g := range s.Slices {
			revision, err := q.SliceRevision(g.URN)
			if err != nil {
				return 0, err
			}
			n = n*31 + revision + 1 // revisions do not only grow
		}
		n = n*31 + uint64(s.Last.Unix()) + 1 // of the last sign-in
	}
	return n, err
}

// chosenSlices returns the slices of the class that are ticked in the form.
func (q *request) chosenSlices(c *authority.Class) (chosen []*sliceRecord) {
	q.r.PostFormValue("slice") // parses the form
	for _, s := range c.Students {
		for _, g := range s.Slices {
			if slices.Contains(q.r.PostForm["slice"], g.URN.Name) {
				chosen = append(chosen, recordOf(c, g))
			}
		}
	}
	return chosen
}

// forChosen calls do for each chosen slice that has nodes, and answers with a notice of what was done, and one for each that
// failed.
func (q *request) forChosen(c *authority.Class, do func(*opened, []client.Sliver) (what string, err error)) error {
	chosen := q.chosenSlices(c)
	names := map[string][]string{} // by what was done
	var all []notice
	for _, s := range chosen {
		o, list, err := q.openWithNodes(*s)
		if err == nil && len(list) == 0 {
			continue
		}
		what := ""
		if err == nil {
			what, err = do(o, list)
		}
		if err != nil {
			all = append(all, wrong(s.URN.Name, err))
			continue
		}
		names[what] = append(names[what], s.URN.Name)
	}
	switch {
	case len(chosen) == 0:
		all = append(all, notice{true, "Nothing was changed, since no experiment is ticked. Tick them first, or all by the box at the top."})
	case len(names)+len(all) == 0:
		all = append(all, done("The experiments have no nodes."))
	}
	for _, what := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		all = slices.Insert(all, 0, done("%s %s: %s.", display.Count(len(names[what]), "experiment"), what, someOf(names[what])))
	}
	return q.redirect("/ui/class/"+c.URN.Name, all...)
}

// extendClass sets a later end of the chosen experiments.
func (q *request) extendClass(c *authority.Class) error {
	return q.forChosen(c, func(o *opened, list []client.Sliver) (string, error) {
		until, problem := q.newEnd(list)
		if problem != "" {
			return "", errors.New(problem)
		}
		_, reason, err := q.extend(o, list, until)
		if reason != "" {
			return "extended until the latest possible end (" + reason + ")", err
		}
		return "extended", err
	})
}

// endClass deletes the nodes of the chosen experiments, after a page that asks for a confirmation.
func (q *request) endClass(c *authority.Class) error {
	if chosen := q.chosenSlices(c); len(chosen) > 0 && q.r.PostFormValue("yes") == "" {
		x := q.newClassBody(c)
		x.Ending = chosen
		return q.renderClass(x, http.StatusOK)
	}
	return q.forChosen(c, func(o *opened, _ []client.Sliver) (string, error) {
		_, _, err := o.Client.Delete(q.inBackground(), []string{o.Slice}, o.Credentials, client.Options{})
		return "ended, and nodes are being removed", err
	})
}

// setClassRequest stores the request of the class, if it has no mistakes and can fit here.
func (q *request) setClassRequest(c *authority.Class) error {
	x := q.newClassBody(c)
	x.Text = strings.ReplaceAll(q.r.PostFormValue("text"), "\r\n", "\n")
	if err := x.examine(q); err != nil {
		return err
	}
	if x.IsRefused = x.Check.Request == nil; x.IsRefused {
		return q.renderClass(x, http.StatusUnprocessableEntity)
	}
	if _, err := q.authorityCall("sa", "update", "PROJECT", c.URN.String(), fieldsOf("_PATCHBAY_REQUEST", x.Text)); err != nil {
		return q.redirect(x.Path, wrong("The request was not stored", err))
	}
	said := []notice{done("The request is stored: %s. Students start it from now on. What they have started stays: %s with nodes.", x.Check.Summary, display.Count(x.Running, "experiment"))}
	for _, m := range x.Check.Mistakes {
		said = append(said, notice{true, m.Text})
	}
	return q.redirect(x.Path, said...)
}

// linkStudent makes a sign-in link of a student, and shows it once.
func (q *request) linkStudent(c *authority.Class) error {
	student := urn.URN{Authority: c.URN.Authority, Type: urn.User, Name: q.r.PostFormValue("student")}
	secret, ends, err := q.Authority.LinkFor(q.visitor.Member, student, c.URN, q.now)
	if err != nil {
		return q.redirect("/ui/class/"+c.URN.Name, wrong("There is no link", err))
	}
	q.Log.Info("a teacher has made a link", "teacher", q.visitor.Member.String(), "student", student.String())
	x := q.newClassBody(c)
	x.Link = &signInLink{For: student.Name, URL: q.URL + authority.SignInPath + secret, Ends: ends}
	return q.renderClass(x, http.StatusOK)
}
