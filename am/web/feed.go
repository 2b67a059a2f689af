package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	ical "github.com/arran4/golang-ical"

	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site/operate"
)

var feedRoutes = []route{
	{"GET " + feedPath + "{secret}", anyone, (*request).sendFeed, nil},
	{"POST /ui/mine/feed", members, (*request).changeFeed, nil},
}

// feedPath is the path of a calendar feed, before its secret and .ics.
const feedPath = "/ui/feed/"

// HasFeed reports whether the visitor has a calendar feed.
func (q *request) HasFeed() (bool, error) { return q.Authority.HasFeed(q.visitor.Member) }

// changeFeed makes a new link of the visitor's feed, which ends the earlier one, or ends the feed.
func (q *request) changeFeed() error {
	if q.r.PostFormValue("do") == "end" {
		if err := q.Authority.EndFeed(q.visitor.Member); err != nil {
			return err
		}
		return q.redirect("/ui/mine#feed", done("The calendar feed has ended. Its link does not work any more."))
	}
	secret, err := q.Authority.NewFeed(q.visitor.Member, q.now)
	if err != nil {
		return err
	}
	return q.renderMine(mineBody{Feed: q.URL + feedPath + secret + ".ics"})
}

// sendFeed sends the experiments of the member whose secret the path has, for calendar programs, which have no session. A wrong secret is
// looked up as a right one is: by its hash.
func (q *request) sendFeed() error {
	q.visitor = nil
	if q.Authority == nil {
		return errNotFound
	}
	secret, _ := strings.CutSuffix(q.r.PathValue("secret"), ".ics")
	member, ok, err := q.Authority.FeedOf(secret)
	if err == nil && !ok {
		err = errNotFound
	}
	if err != nil {
		return err
	}
	q.visitor = &authority.Visitor{Member: member}
	projects, err := q.projects()
	if err != nil {
		return err
	}
	list, err := q.experiments(projects)
	if err != nil {
		return err
	}
	c := ical.NewCalendarFor("Patchbay")
	c.SetMethod(ical.MethodPublish)
	c.SetXWRCalName(q.Site + ", " + member.Name)
	c.SetRefreshInterval("PT1H")
	for _, e := range list {
		entries, err := q.journalOf(e.sliceRecord)
		if err != nil {
			return err
		}
		changed := e.Created
		if n := len(entries); n > 0 {
			changed = entries[n-1].At
		}
		if err := q.addEvents(c, e, changed); err != nil {
			return err
		}
	}
	return q.send(http.StatusOK, "text/calendar; charset=utf-8", []byte(c.Serialize(ical.WithNewLine("\r\n"))))
}

// feedEvent is a window of an experiment.
type feedEvent struct {
	begins, ends time.Time
	nodes        []string
}

// addEvents adds an event for each window of an experiment, which was last changed at a time. Its UID depends on the slice and the begin, which never move.
func (q *request) addEvents(c *ical.Calendar, e experimentRow, changed time.Time) error {
	for _, w := range e.Slivers {
		if w.Begins.IsZero() { // only the site knows since when it has been reserved
			rows, err := list[operate.Sliver](q, "slivers", operate.Filter{Slice: e.URN.String()})
			if err != nil {
				return err
			}
			setBegins(e.Slivers, rows)
			break
		}
	}
	var events []feedEvent
	for _, v := range e.Slivers {
		i := slices.IndexFunc(events, func(x feedEvent) bool { return x.begins.Equal(v.Begins) })
		if i < 0 {
			i, events = len(events), append(events, feedEvent{begins: v.Begins})
		}
		if x := &events[i]; x.ends.Before(v.LeaseEnd()) {
			x.ends = v.LeaseEnd()
		}
		events[i].nodes = append(events[i].nodes, display.Printable(v.ClientID))
	}
	name := strings.TrimPrefix(e.Project.Name+" / "+e.URN.Name, " / ")
	for _, x := range events {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", e.URN.Key(), x.begins.Unix()))
		event := c.AddEvent(hex.EncodeToString(sum[:16]) + "@" + q.Site)
		event.SetDtStampTime(q.now)
		event.SetLastModifiedAt(changed)
		event.SetStartAt(x.begins)
		event.SetEndAt(x.ends)
		event.SetSummary(name)
		event.SetDescription(display.Count(len(x.nodes), "node") + ": " + strings.Join(x.nodes, ", "))
		event.SetURL(q.URL + e.Path())
	}
	return nil
}

// setBegins gives slivers that were not reserved ahead a begin: when the first of them was reserved.
func setBegins(list []client.Sliver, rows []operate.Sliver) {
	var first time.Time
	now := map[string]bool{}
	for _, v := range list {
		now[v.URN] = v.Begins.IsZero()
	}
	for _, r := range rows {
		if now[r.URN.String()] && (first.IsZero() || r.Created.Before(first)) {
			first = r.Created.UTC().Truncate(time.Second)
		}
	}
	for i := range list {
		if list[i].Begins.IsZero() {
			list[i].Begins = first
		}
	}
}
