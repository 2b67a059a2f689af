package web

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"patchbay/am/follow/audit"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
)

var useRoutes = []route{
	{"GET /ui/operator/who", operators, (*request).showWho, nil},
	{"GET /ui/operator/journal", operators, (*request).showJournal, (*request).siteRevision},
	{"GET /ui/operator/use", operators, (*request).showUse, nil},
	{"GET /ui/operator/use.csv", operators, (*request).sendUse, nil},
}

// whoBody is the data of templates/who.html. The answer is nil without a question.
type whoBody struct {
	Search  form
	Address string
	Problem string
	*audit.Answer
	Port bool // the question names a port
}

// showWho shows who had an address at a time, as patchbay who does.
func (q *request) showWho() error {
	if q.Who == nil {
		return errNotFound
	}
	v := q.r.URL.Query()
	x := whoBody{Search: form{ID: "search", Values: v}, Address: strings.TrimSpace(v.Get("address"))}
	if x.Address != "" {
		x.Problem = reasonOf(x.find(q))
	}
	return q.render(page{Name: "who", Title: "Who had an address", Tab: "who", Body: x})
}

func (x *whoBody) find(q *request) error {
	place, err := audit.ParsePlace(x.Address)
	if err != nil {
		return err
	}
	at := q.now
	if text := timeText(x.Search.Values, "at"); text != "" {
		if at, err = operate.ParsePast("", text, q.now); err != nil || at.After(q.now) {
			return badRequest("Give a time until now, or a duration before now such as 2h.")
		}
	}
	x.Port = place.Port != 0
	x.Answer, err = q.Who(place, at)
	return err
}

// nameIn returns the name in a URN; "" for another text.
func nameIn(text string) string {
	u, _ := urn.Parse(text)
	return u.Name
}

// holderEnd says when a sliver no longer had an address, and if that is unknown why.
func holderEnd(h audit.Holder) string {
	exact := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	switch {
	case !h.Seen.IsZero() && h.Until.IsZero():
		return "unknown: the audit ends at " + exact(h.Seen)
	case !h.Seen.IsZero():
		return "some time between " + exact(h.Seen) + " and " + exact(h.Until) + ", when no lines were written"
	case h.Until.IsZero():
		return "now"
	}
	return exact(h.Until)
}

// useBody is the data of templates/use.html.
type useBody struct {
	Search        form
	Since, End    time.Time
	Projects      []projectUse
	Total         operate.Usage
	Note, Problem string
	LastMonth     string // the path of this page for the last month
}

// projectUse is the use of a project, and of its users.
type projectUse struct {
	Name string
	operate.Usage
	Users []operate.Usage
}

// usage reads the list of usage for the period of the query.
func (q *request) usage() (all []operate.Usage, since, end time.Time, err error) {
	v := q.r.URL.Query()
	if since, end, err = operate.ParsePeriod(timeText(v, "from"), timeText(v, "until"), q.now); err != nil {
		return nil, since, end, badRequest("Give the beginning of a period and a later end.")
	}
	all, err = list[operate.Usage](q, "usage", operate.Filter{Since: since, Until: end})
	return all, since, end, err
}

// showUse shows node-hours by project, user and type. The project of a class is the class.
func (q *request) showUse() error {
	v := q.r.URL.Query()
	period := func(from, until string) string { return "?" + url.Values{"from": {from}, "until": {until}}.Encode() }
	month := time.Date(q.now.UTC().Year(), q.now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	x := useBody{Search: form{ID: "search", Values: v}}
	x.LastMonth = "/ui/operator/use" + period(month.AddDate(0, -1, 0).Format(inputTime), month.Format(inputTime))
	list, since, end, err := q.usage()
	x.Since, x.End, x.Problem = since, end, reasonOf(err)
	for _, u := range list {
		n := len(x.Projects) - 1
		if n < 0 || !strings.EqualFold(x.Projects[n].Project, u.Project) {
			_, name, _ := strings.Cut(u.Project, ":")
			x.Projects, n = append(x.Projects, projectUse{Name: cmp.Or(name, "no project"), Usage: operate.Usage{Project: u.Project}}), n+1
		}
		x.Projects[n].Users = append(x.Projects[n].Users, u)
		for _, sum := range []*operate.Usage{&x.Projects[n].Usage, &x.Total} {
			sum.Nodes += u.Nodes
			sum.NodeHours += u.NodeHours
			sum.AheadHours += u.AheadHours
			sum.Incomplete += u.Incomplete
		}
	}
	for _, p := range x.Projects {
		slices.SortStableFunc(p.Users, func(a, b operate.Usage) int { return naturalOrder(a.User.Name, b.User.Name) })
	}
	x.Note = operate.MissingUsage(since, q.now, q.JournalKeep, x.Total.Incomplete)
	return q.render(page{Name: "use", Title: "Use", Tab: "use", Body: &x})
}

// sendUse answers with the columns of patchbay usage --csv.
func (q *request) sendUse() error {
	list, since, end, err := q.usage()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(operate.UsageColumns) // a buffer returns no errors
	for _, u := range list {
		w.Write(u.Record())
	}
	w.Flush()
	q.w.Header().Set("Content-Disposition", `attachment; filename="usage-`+since.UTC().Format(time.DateOnly)+"-"+end.UTC().Format(time.DateOnly)+`.csv"`)
	return q.send(http.StatusOK, "text/csv; charset=utf-8", b.Bytes())
}
