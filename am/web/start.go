package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/am/service"
	"patchbay/am/urn"
)

var startRoutes = []route{
	{"GET /ui/start", members, (*request).showStart, nil},
	{"GET /ui/start/{project}/{name}", members, (*request).showStart, nil},
	{"POST /ui/start", members, (*request).start, nil},
	{"POST /ui/start/check", members, (*request).checkStart, nil},
}

const startPath = "/ui/start"

// startForm has the values of the form.
type startForm struct {
	Name, Project, Text, Key string
	Life                     time.Duration // 0 for the usual one
	Begin, End               time.Time     // zero for now, and for the end that Life gives
	IsClass                  bool          // the text is the request of the project
	NeedsNoKey               bool          // the visitor was told that without a key they cannot log in
	IsPreview                bool          // nothing is reserved
	Seen                     string        // identifies the text that the form showed
	// Count is the number of nodes of the type that a link of the calendar names, which has Most of them; 0 without such a link.
	Count, Most int
}

// startBody is the data of templates/start.html.
type startBody struct {
	*request
	startForm
	*checkBody
	Problem  string
	Projects []projectRecord // in which the visitor may create slices
	Offers   []offer
}

// BeginText and EndText are the values of the inputs.
func (f startForm) BeginText() string { return inputText(f.Begin) }
func (f startForm) EndText() string   { return inputText(f.End) }

// Lives returns the lengths of leases that the form offers beside the usual one.
func (x startBody) Lives() []time.Duration {
	const day = 24 * time.Hour
	return slices.DeleteFunc([]time.Duration{time.Hour, 4 * time.Hour, day, 3 * day, 7 * day}, func(d time.Duration) bool { return d == x.Lease || d > x.LongestLease })
}

// showStart shows the form: for the request of the project in the path if it has one, else for a text of one's own.
func (q *request) showStart() error {
	if q.r.PathValue("name") == "" && !q.r.URL.Query().Has("own") { // students want the experiment of their class
		_, offers, err := q.choices()
		if err != nil {
			return err
		}
		offers = slices.DeleteFunc(offers, offer.IsTaught)
		if len(offers) == 1 && !offers[0].Runs {
			to := url.URL{Path: offers[0].Path, RawQuery: q.r.URL.RawQuery}
			return &redirect{to.String()}
		}
	}
	f := startForm{Name: cmp.Or(q.r.PathValue("name"), "example"), Project: q.r.PathValue("project"), Text: experiment.Example, IsClass: true}
	if err := f.fillFromCalendar(q); err != nil {
		return err
	}
	return q.showForm(f, nil, "")
}

// nodeRequest is a node of a request.
const nodeRequest = `  <node client_id="node%d" exclusive="%t">
%s    <sliver_type name="%s"/>
  </node>
`

// maxCount limits the nodes that the form fills in.
const maxCount = 100

// fillFromCalendar fills in what a link of the calendar has: a free time, and the type and the number of nodes.
func (f *startForm) fillFromCalendar(q *request) error {
	v := q.r.URL.Query()
	f.Begin, _ = parseInput(v.Get("begin")) // a damaged one is left out
	f.End, _ = parseInput(v.Get("end"))
	name, hardware, line := v.Get("type"), v.Get("hardware"), ""
	free, err := q.Free()
	i := slices.IndexFunc(free.Types, func(t service.FreeType) bool {
		return t.Name == name && (hardware == "" || slices.Contains(t.Hardware, hardware))
	})
	if i < 0 || err != nil {
		return err
	}
	if hardware != "" {
		line = fmt.Sprintf("    <hardware_type name=\"%s\"/>\n", template.HTMLEscapeString(hardware))
	}
	count, _ := strconv.Atoi(v.Get("count"))
	f.Most = min(free.Types[i].Total, maxCount)
	f.Count = max(1, min(count, f.Most))
	f.Text = "<rspec type=\"request\" xmlns=\"http://www.geni.net/resources/rspec/3\">\n"
	for n := range f.Count {
		f.Text += fmt.Sprintf(nodeRequest, n+1, free.Types[i].Kind == "exclusive", line, template.HTMLEscapeString(name))
	}
	f.Text += "</rspec>\n"
	return nil
}

// Gap has the values of the link of the calendar, without the number of nodes.
func (x startBody) Gap() map[string]string {
	gap := map[string]string{}
	for _, name := range []string{"begin", "end", "type", "hardware"} {
		if value := x.r.URL.Query().Get(name); value != "" {
			gap[name] = value
		}
	}
	return gap
}

// choices returns the projects in which the visitor may start experiments, and what projects offer them.
func (q *request) choices() (list []projectRecord, offers []offer, err error) {
	if list, err = q.projects(); err != nil {
		return nil, nil, err
	}
	rows, err := q.experiments(list)
	list = slices.DeleteFunc(list, func(p projectRecord) bool { return !p.CanStart() })
	return list, q.offers(list, rows), err
}

// showForm shows the form with its values, the result of a check, which it makes if check is nil, and a problem.
func (q *request) showForm(f startForm, check *checkBody, problem string) error {
	list, offers, err := q.choices()
	if err != nil {
		return err
	}
	f.fill(list)
	for _, o := range offers {
		if f.IsClass && o.Runs && o.URN.Name == f.Project {
			return q.redirect(o.Path, done("This is your experiment of %s. End it before you start it again.", f.Project))
		}
	}
	if check == nil {
		if check, err = q.examine(f.Text); err != nil {
			return err
		}
		check.setAhead(f.Begin.After(q.now))
	}
	list = slices.DeleteFunc(list, func(p projectRecord) bool { return p.Request != "" && !p.IsTaught() }) // students start what the class has
	status := http.StatusOK
	if problem != "" {
		status = http.StatusUnprocessableEntity
	}
	f.Seen = textID(f.Text)
	body := startBody{q, f, check, problem, list, offers}
	return q.render(page{Name: "start", Title: "Start an experiment", Tab: "start", Status: status, Body: body})
}

// fill fills in the request of the project. If it has none, the form is not for a class.
func (f *startForm) fill(list []projectRecord) {
	i := slices.IndexFunc(list, func(p projectRecord) bool { return p.URN.Name == f.Project && p.Request != "" })
	if f.IsClass = f.IsClass && i >= 0; f.IsClass {
		f.Text = list[i].Request
	}
}

// textID identifies a text.
func textID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// sliceName makes a name of a slice from that of a member.
func sliceName(member string) string {
	return strings.Trim(strings.ReplaceAll(member[:min(len(member), 19)], "_", "-"), "-")
}

// start starts an experiment, and goes to its page. If that is refused, the form comes back.
func (q *request) start() error {
	value := func(name string) string { return strings.TrimSpace(q.r.FormValue(name)) }
	f := startForm{
		Name: value("name"), Project: strings.TrimPrefix(value("project"), "-"), Key: value("key"),
		Text: strings.ReplaceAll(q.r.FormValue("text"), "\r\n", "\n"), IsClass: value("class") != "", NeedsNoKey: value("nokey") != "",
	}
	problem := f.readWindow(value, q)
	if f.IsClass {
		list, err := q.projects()
		if err != nil {
			return err
		}
		f.fill(list)
		f.Name = sliceName(q.visitor.Member.Name)
	}
	check, err := q.examine(f.Text)
	if err != nil {
		return err
	}
	check.setAhead(f.Begin.After(q.now))
	switch {
	case value("do") == "check" && problem == "" && check.Request != nil && check.IsAhead:
		f.IsPreview, check.FitsThen = true, true
		_, err := q.startExperiment(f, check)
		if p := problemOf(err); p != nil {
			problem, check.FitsThen = p.text, false
		} else if err != nil {
			return err
		}
		return q.showForm(f, check, problem)
	case value("do") == "check" || value("first")+value("last") != "":
		return q.showForm(f, check, "")
	}
	if problem != "" {
		return q.showForm(f, check, problem+" Nothing is reserved.")
	}
	if f.IsClass && value("seen") != textID(f.Text) {
		return q.showForm(f, check, "Your teacher has changed the request. Look at the new one, then press Start again.")
	}
	if check.Request == nil {
		return q.showForm(f, check, "Nothing is reserved, since the request has mistakes.")
	}
	if f.Key == "" && !f.NeedsNoKey {
		keys, err := q.Keys()
		if err != nil {
			return err
		}
		if f.NeedsNoKey = len(keys) == 0; f.NeedsNoKey {
			return q.showForm(f, check, "You have no SSH key, so you could not log in. Paste yours below, or start without a key.")
		}
	}
	o, err := q.startExperiment(f, check)
	if p := problemOf(err); p != nil {
		f.Key = withoutPrivate(f.Key)
		return q.showForm(f, check, p.text+" Nothing is reserved.")
	}
	if err != nil {
		return err
	}
	if f.Begin.After(q.now) {
		return q.redirect(o.Path(), done("The nodes are reserved for you from %s on. They are created and started then, without you.", inUTC(f.Begin)))
	}
	return q.redirect(o.Path(), done("The nodes are reserved for you; this page shows when they are ready."))
}

// readWindow reads when the experiment begins and ends. After a refusal for lack of room, a button has another begin or end. It returns what
// is wrong with the times; "" if nothing is.
func (f *startForm) readWindow(value func(string) string, q *request) (problem string) {
	f.Life, _ = display.ParseDuration(value("life")) // empty for the usual one
	for _, i := range []struct {
		name string
		to   *time.Time
	}{{"begin", &f.Begin}, {"end", &f.End}} {
		var err error
		if *i.to, err = parseInput(value(i.name)); err != nil && value(i.name) != "" {
			problem = fmt.Sprintf("%.40q is not a time. Write one such as %s, in UTC.", value(i.name), q.now.Add(time.Hour).UTC().Format(inputTime))
		}
	}
	if first, err := parseInput(value("first")); err == nil {
		if !f.End.IsZero() { // it lasts as long as before
			f.End = first.Add(f.End.Sub(am.LaterOf(f.Begin, q.now)))
		}
		f.Begin = first
	}
	if last, err := parseInput(value("last")); err == nil {
		f.End, f.Life = last, 0
	}
	switch {
	case problem != "":
	case !f.End.IsZero() && f.Life > 0:
		problem = "There are both an end and how long it lasts. Empty one of them."
	case !f.Begin.IsZero() && f.Begin.Before(q.now.Add(-time.Hour)): // a form may be open for a while
		problem = fmt.Sprintf("The begin, %s, is past. Choose a later one, or none to begin now.", inUTC(f.Begin))
	case !f.End.IsZero() && !f.End.After(q.now):
		problem = fmt.Sprintf("The end, %s, is past.", inUTC(f.End))
	case !f.End.IsZero() && !f.End.After(f.Begin):
		problem = fmt.Sprintf("The end, %s, is not after the begin, %s.", inUTC(f.End), inUTC(f.Begin))
	}
	return problem
}

// startExperiment creates the slice, reserves the nodes, and has them created and started. For a preview, it only creates the slice. It adds the lines of a refusal to check.
func (q *request) startExperiment(f startForm, check *checkBody) (*opened, error) {
	options := client.Options{End: f.End, Preview: f.IsPreview}
	begin := am.LaterOf(f.Begin, q.now)
	if isAhead := begin.After(q.now); options.End.IsZero() && (isAhead || f.Life > 0) {
		options.End = begin.Add(cmp.Or(f.Life, q.Lease))
	}
	if f.Key != "" && !f.IsPreview {
		err := q.addKey(f.Key)
		if refused, ok := errors.AsType[*client.AuthorityError](err); err != nil && !(ok && refused.Code == client.DuplicateCode) {
			return nil, err
		}
	}
	o, err := q.newSlice(f, options.End)
	if err != nil {
		return nil, err
	}
	if begin.After(q.now) {
		options.Start, options.AtStart = begin, true
		if options.Users, err = q.usersOf(o.URN); err != nil {
			return nil, err
		}
	}
	all := []string{o.Slice}
	_, reply, err := o.Client.Allocate(q.r.Context(), o.Slice, o.Credentials, string(check.Request), options)
	switch _, isRefused := errors.AsType[*am.Error](err); {
	case isRefused && am.CodeOf(err) == am.TooBig:
		if check.Reason == "" || !reply.FirstStart.IsZero() {
			check.Reason = check.ofSource(optionTexts.Replace(reply.Output))
		}
		check.FirstStart, check.LongestEnd = reply.FirstStart, reply.LongestEnd
		if options.AtStart {
			return nil, badRequest("The request does not fit then; see below.")
		}
		return nil, badRequest("The request does not fit now; see below.")
	case isRefused && check.Reason != "":
		return nil, badRequest("The request does not fit now; see below.")
	case isRefused:
		check.refuse(check.ofSource(reply.Output))
		return nil, badRequest("The site refused the request; see below.")
	case err != nil || options.AtStart:
		return o, err
	}
	if options.Users, err = q.usersOf(o.URN); err == nil {
		err = q.create(o, all, options)
	}
	if err != nil {
		if _, _, failed := o.Client.Delete(q.inBackground(), all, o.Credentials, client.Options{}); failed != nil {
			return nil, fmt.Errorf("%w; the nodes were not released: %w", err, failed)
		}
	}
	return o, err
}

// newSlice creates the slice of the form, or takes one of the visitor that has no nodes. It lasts until end, which may be
// zero.
func (q *request) newSlice(f startForm, end time.Time) (*opened, error) {
	u, err := q.sliceURN(f.Project, f.Name)
	if err != nil {
		return nil, badRequest("%.40q cannot be the name of an experiment. Write a letter, then up to 18 letters, digits or hyphens.", f.Name)
	}
	fields := []string{"SLICE_NAME", f.Name}
	if f.Project != "" {
		fields = append(fields, "SLICE_PROJECT_URN", urn.URN{Authority: q.Authority.URN().Authority, Type: urn.Project, Name: f.Project}.String())
	}
	_, err = q.authorityCall("sa", "create", "SLICE", fieldsOf(fields...))
	refused, isRefused := errors.AsType[*client.AuthorityError](err)
	exists := isRefused && refused.Code == client.DuplicateCode
	if err != nil && !exists {
		return nil, err
	}
	s, err := q.slice(u)
	switch {
	case errors.Is(err, errNotFound):
		return nil, badRequest("Somebody else has an experiment named %s. Choose another name.", f.Name)
	case err != nil:
		return nil, err
	}
	if q.keepUntil(s, end.AddDate(0, 0, 7)) != nil { // a week more, so that the site can suggest a later time
		err = q.keepUntil(s, end)
	}
	if err != nil {
		return nil, err
	}
	o, err := q.open(s)
	if err != nil || !exists {
		return o, err
	}
	list, err := o.Client.StatusOf([]string{o.Slice}, o.Credentials)(q.r.Context())
	if len(list) > 0 {
		err = badRequest("Your experiment %s has nodes already. End it first, or choose another name.", f.Name)
	}
	return o, err
}
