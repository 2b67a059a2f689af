package web

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/inventory/nameset"
	"patchbay/rspec/draw"
	"patchbay/rspec/view"
	"patchbay/schemas/xmltree"
)

var experimentRoutes = []route{
	{"GET /ui/experiment/{project}/{name}", members, with((*request).sliceOfPath, (*request).showExperiment), (*request).experimentRevision},
	{"GET /ui/experiment/{project}/{name}/manifest", members, with((*request).openPath, (*request).sendManifest), nil},
	{"POST /ui/experiment/{project}/{name}/act", members, with((*request).openPath, (*request).actOnNodes), nil},
	{"POST /ui/experiment/{project}/{name}/extend", members, with((*request).openPath, (*request).extendExperiment), nil},
	{"POST /ui/experiment/{project}/{name}/end", members, with((*request).openPath, (*request).endExperiment), nil},
	{"POST /ui/experiment/{project}/{name}/partners", members, with((*request).sliceOfPath, (*request).changePartners), nil},
}

// opened is a slice with what calls about it need.
type opened struct {
	sliceRecord
	experiment.Experiment
}

// open returns a slice for calls as the visitor.
func (q *request) open(s sliceRecord) (*opened, error) {
	if s.IsExpired {
		return nil, &problem{http.StatusConflict, "The experiment has ended", "Its slice has expired. Start the experiment again."}
	}
	credentials, err := q.credential(s.URN)
	if err != nil {
		return nil, err
	}
	c, err := q.aggregate()
	return &opened{s, experiment.Experiment{Client: c, Slice: s.URN.String(), Credentials: credentials}}, err
}

// openPath returns the slice that the path names for calls as the visitor.
func (q *request) openPath() (*opened, error) {
	s, err := q.sliceOfPath()
	if err != nil {
		return nil, err
	}
	return q.open(s)
}

// status returns the slivers of the slice.
func (o *opened) status(q *request) ([]client.Sliver, error) {
	return o.Client.StatusOf([]string{o.Slice}, o.Credentials)(q.r.Context())
}

// experimentBody is the data of templates/experiment.html.
type experimentBody struct {
	*request
	sliceRecord
	IsTaught bool // the visitor teaches the project
	// State is the gravest state of a node, and Summary counts the nodes in each state.
	State, Summary        string
	Headline              string // the state, or how many nodes are ready
	Nodes                 []nodeRow
	Picture               template.HTML
	Steps                 string // counts the steps of the setup
	HasReserved, CanSetUp bool
	NoLogin               bool      // the visitor has no account on a node that is ready
	Ends                  time.Time // of the lease that ends first
	Waiting               waiting
	RenewableUntil        time.Time // set if something else than the usual limits ends leases then
	Problem               string    // why the nodes cannot be shown
	Member                string    // of the form that adds a partner
	PartnerProblem        string
	Journal               []doing // the newest first
	Ended                 *doing  // how the nodes ended
	Lost                  *doing  // the last time that an operator ended some of the nodes; nil for never
	Maintenance           []service.FreeMaintenance
}

// Partners returns the members of the slice; none after its end.
func (x experimentBody) Partners() ([]partner, error) {
	if x.IsExpired {
		return nil, nil
	}
	return x.partners(x.URN)
}

// Teaches reports whether a member teaches the project. The authority keeps those in the slice.
func (x experimentBody) Teaches(member urn.URN) (bool, error) {
	role, err := x.Authority.RoleIn(x.Project, member)
	return projectRecord{Role: role}.IsTaught(), err
}

// EndText is the value of the input for the end.
func (x experimentBody) EndText() string { return inputText(x.Ends) }

// IsMe reports whether a member is the visitor.
func (x experimentBody) IsMe(member urn.URN) bool { return member.Equal(x.visitor.Member) }

// StepTime returns how long a step took, or has been running.
func (x experimentBody) StepTime(s client.Service) string { return experiment.StepTime(s, x.now) }

// HasBoxes reports whether nodes can be ticked. The only node needs no tick.
func (x experimentBody) HasBoxes() bool { return x.CanChange() && len(x.Nodes) > 1 }

// waiting describes the nodes of an experiment that begin later.
type waiting struct {
	Begins, Ends time.Time // of the nodes that begin first; zero if none begin later
	// Released is when the nodes are released unless somebody creates them; zero if the site creates them.
	Released time.Time
	IsAll    bool // no node has begun
}

func waitingOf(list []client.Sliver, now time.Time) (w waiting) {
	n := 0
	for i := range list {
		v := &list[i]
		if !v.Waits(now) {
			continue
		}
		if n++; w.Begins.IsZero() || v.Begins.Before(w.Begins) {
			w = waiting{Begins: v.Begins, Ends: v.Ends}
			if v.Expires.Before(v.Ends) {
				w.Released = v.Expires
			}
		}
	}
	w.IsAll = n > 0 && n == len(list)
	return w
}

// nodeRow is a row of the table of nodes.
type nodeRow struct {
	State, Error, Remedy string
	experiment.Node
	SSH   string // the command that logs in
	Note  string // about the login, or in place of it
	Step  *experiment.NodeStep
	Steps []client.Service // with the ends of their outputs
}

// showExperiment shows the experiment of the path.
func (q *request) showExperiment(s sliceRecord) error {
	return q.renderExperiment(s, experimentBody{})
}

// renderExperiment completes the body of a page about an experiment, and shows it.
func (q *request) renderExperiment(s sliceRecord, x experimentBody) error {
	names := map[string]string{}
	x.request, x.sliceRecord, x.State = q, s, "expired"
	if !s.IsExpired {
		if err := x.readNodes(q, names); err != nil {
			return err
		}
	}
	var failed error
	x.IsTaught, failed = x.Teaches(q.visitor.Member)
	entries, err := q.journalOf(s)
	err = cmp.Or(failed, err)
	if err != nil {
		return err
	}
	isBefore := false // the entry is of a time before the nodes were reserved
	for _, e := range slices.Backward(entries) {
		d := doingOf(e, names)
		if isBefore = isBefore || am.Event(e.Event) == am.EventAllocate; d.IsEnd() && e.Operator != "" && !isBefore && len(x.Nodes) > 0 {
			x.Lost = cmp.Or(x.Lost, &d)
		}
		if am.Event(e.Event) == am.EventShutdown && x.Ended == nil && strings.Contains(x.Problem, "was shut down") {
			x.Ended, x.Problem = &d, fmt.Sprintf("%s. %s gave this reason: %s. Ask the operator what to do.", x.Problem, d.Who, cmp.Or(d.Text, "none"))
		}
		if d.IsEnd() && x.Ended == nil {
			x.Ended = &d
		}
		x.Journal = append(x.Journal, d)
	}
	if x.Ended != nil && len(x.Nodes) == 0 && x.State == withoutNodes {
		x.State = ended
	}
	x.Headline = cmp.Or(x.Headline, x.State)
	p := page{Name: "experiment", Title: s.URN.Name, Tab: "mine", Body: x}
	if x.IsTaught {
		p.Tab = "class"
	}
	return q.render(p)
}

// readNodes fills in what the aggregate says. It adds the names of nodes by the URNs of their slivers to names.
func (x *experimentBody) readNodes(q *request, names map[string]string) error {
	o, err := q.open(x.sliceRecord)
	if err != nil {
		return err
	}
	answer, err := o.Describe(q.r.Context())
	x.State, x.Summary = summarize(answer.Slivers)
	x.Ends, x.Waiting = experiment.EarliestEnd(answer.Slivers), waitingOf(answer.Slivers, q.now)
	for _, v := range answer.Slivers {
		usual := q.now.Add(q.LongestLease)
		if x.Expires.Before(usual) {
			usual = x.Expires // of the slice; the pages extend it
		}
		if at := v.RenewableUntil; !at.IsZero() && at.Before(usual.Add(-time.Minute)) && (x.RenewableUntil.IsZero() || at.Before(x.RenewableUntil)) {
			x.RenewableUntil = at
		}
	}
	if err != nil {
		x.Problem, x.State = errorText(err), "unavailable"
	}
	if len(answer.Slivers) == 0 {
		return nil
	}
	manifest, err := view.Read([]byte(answer.RSpec), xmltree.Limits{})
	if err != nil {
		return err
	}
	account := am.LoginName(q.visitor.Member, func(string) bool { return false })
	slivers := map[string]*client.Sliver{}
	for i := range answer.Slivers {
		v := &answer.Slivers[i]
		slivers[v.URN], names[v.URN] = v, v.ClientID
	}
	most, ready := 30_000/len(answer.Slivers), 0 // bytes of all outputs of a node
	for i, n := range experiment.NodesOf(manifest, account) {
		v := slivers[n.Sliver]
		if v == nil {
			continue // a node of another aggregate
		}
		for _, h := range manifest.Nodes[i].Hosts {
			if h.IPv4 != "" {
				n.Addresses = append(n.Addresses, experiment.Address{Link: "control", Address: h.IPv4})
			}
		}
		r := nodeRow{State: experiment.StateWord(*v), Error: v.Error, Node: n, SSH: n.Command()}
		r.explain(q.IsSimulated(n.Component), account)
		r.addSteps(v, most)
		manifest.Nodes[i].State, manifest.Nodes[i].Logins = r.State, nil // logins are in the table
		x.HasReserved = x.HasReserved || r.State == "reserved"
		if r.State == "ready" {
			ready++
			x.NoLogin = x.NoLogin || r.SSH == "" && r.Note == "" || r.SSH != "" && r.Login.User != account
		}
		x.Nodes = append(x.Nodes, r)
	}
	if ready > 0 && ready < len(x.Nodes) {
		x.Headline = fmt.Sprintf("%d of %d ready", ready, len(x.Nodes))
	}
	if x.CanSetUp = experiment.CanContinue(answer.Slivers); slices.ContainsFunc(x.Nodes, func(n nodeRow) bool { return n.Step != nil }) {
		x.Steps = strings.TrimPrefix(experiment.Plans(answer.Slivers)+"; "+experiment.CountSteps(answer.Slivers), "; ")
	}
	x.Picture = picture(manifest, "The network of "+x.URN.Name)
	free, err := q.Free()
	x.Maintenance = slices.DeleteFunc(slices.Clone(free.Maintenance), func(w service.FreeMaintenance) bool {
		return len(w.Components) > 0 && !slices.ContainsFunc(x.Nodes, func(n nodeRow) bool { return hasName(w.Components, n.Component) })
	})
	return err
}

// remedies say what to do about a state.
var remedies = map[string]string{
	"failed":       "It cannot be started again. End the experiment, and start it again. If it fails again, ask the operator of this site.",
	"setup failed": "Log in, repair what the step needs, and continue the setup.",
}

// explain fills in what to do about a failure, and what the visitor must know about the login.
func (r *nodeRow) explain(isSimulated bool, account string) {
	r.Remedy = remedies[r.State]
	switch {
	case r.State == "reserved": // it has no login yet
	case isSimulated:
		r.SSH, r.Note = "", "simulated: there is no login. A real node has a command here, like ssh -p 20000 "+account+"@lab.example.org"
	case r.Unsafe != "":
		r.Note = "not safe to use: " + r.Unsafe
	case r.SSH != "" && r.Login.User != account:
		r.Note = "an account of " + r.Login.User + "; you have none"
	}
}

// addSteps adds the steps of the setup, with outputs of at most most bytes together.
func (r *nodeRow) addSteps(v *client.Sliver, most int) {
	if step, ok := experiment.CurrentStep(*v); ok {
		r.Step = &step
	}
	for _, s := range v.Services {
		s.What = display.Cut(experiment.ShortData(s.What), 80)
		s.Output = lastBytes(s.Output, min(2000, most/len(v.Services)))
		r.Steps = append(r.Steps, s)
	}
}

// lastBytes returns the last lines of a text, of at most most bytes.
func lastBytes(text string, most int) string {
	if text = strings.TrimRight(text, "\r\n\t "); len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return "…\n" + strings.ToValidUTF8(text, "")
}

// stateOrder are the states of nodes, the gravest first.
var stateOrder = []string{"failed", "setup failed", "being removed", "being created", "stopping", "starting", "setting up", "updating", "reserved", "stopped", "ready", "expired"}

// countStates returns the first state in the order, and a text such as "1 failed, 2 ready". Unknown states are the last.
func countStates(counts map[string]int, order []string) (first, text string) {
	rank := func(state string) uint { return uint(slices.Index(order, state)) }
	states := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
	var texts []string
	for _, s := range states {
		first, texts = cmp.Or(first, s), append(texts, fmt.Sprintf("%d %s", counts[s], s))
	}
	return first, strings.Join(texts, ", ")
}

// summarize returns the gravest state of slivers, and a text such as "3 nodes: 1 failed, 2 ready".
func summarize(list []client.Sliver) (state, summary string) {
	if len(list) == 0 {
		return withoutNodes, ""
	}
	counts := map[string]int{}
	for _, v := range list {
		counts[experiment.StateWord(v)]++
	}
	state, summary = countStates(counts, stateOrder)
	return state, display.Count(len(list), "node") + ": " + summary
}

// summaryOf returns numbers of slivers by state, in words.
func summaryOf(states map[string]int) string {
	counts := map[string]int{}
	for state, n := range states {
		counts[stateWord(state)] += n
	}
	_, text := countStates(counts, stateOrder)
	return text
}

// maxDrawn limits the nodes and the links of a picture in a page.
const maxDrawn = 150

// picture draws a document; "" if it is too large.
func picture(d *view.Document, title string) template.HTML {
	var b strings.Builder
	if len(d.Nodes) > maxDrawn || len(d.Links) > maxDrawn || draw.SVG(&b, d, draw.SVGOptions{Title: title, Class: class}) != nil {
		return ""
	}
	return template.HTML(b.String()) // draw escapes all texts
}

// hasName reports whether a list of names and ranges such as pc1..pc4 has a name.
func hasName(list []string, name string) bool {
	return slices.ContainsFunc(list, func(text string) bool {
		r, _ := nameset.Parse(text)
		for n := range r.Names() {
			if n == name {
				return true
			}
		}
		return text == name
	})
}

// experimentRevision returns a number that differs after each change of the experiment of the path.
func (q *request) experimentRevision() (uint64, error) {
	u, err := q.sliceURN(q.r.PathValue("project"), q.r.PathValue("name"))
	if err == nil {
		_, err = q.roleIn(u)
	}
	if err != nil {
		return 0, err
	}
	return q.SliceRevision(u)
}

// sendManifest answers with the manifest as a file.
func (q *request) sendManifest(o *opened) error {
	answer, err := o.Describe(q.r.Context())
	if err == nil && len(answer.Slivers) == 0 {
		err = errNotFound
	}
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Disposition", `attachment; filename="`+o.URN.Name+`-manifest.xml"`)
	return q.send(http.StatusOK, "text/xml; charset=utf-8", []byte(answer.RSpec))
}
