package operate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Usage is a row of the list of usage: the node-hours of one user in one project. A node counts
// from its Provision (CreateSliver in version 2) until it is deleted, an operator releases it,
// or its lease is over. A node that is still held counts until the end of the period. A
// reservation alone does not count, also if it began and was never provisioned. A failed node counts, and so does a node of a
// slice that was shut down, since no other slice can use it.
type Usage struct {
	// User is the user who reserved the nodes; zero if the journal no longer has the
	// reservation.
	User urn.URN `json:"user,omitzero"`
	// Project is the authority of the slices, as in the site's policy.
	Project string `json:"project"`
	// Nodes counts the nodes that were held at some time in the period.
	Nodes     int     `json:"nodes"`
	NodeHours float64 `json:"node_hours"`
	// Incomplete counts the nodes whose Provision the journal no longer has. Such a node counts
	// from the first journal entry on.
	Incomplete int `json:"incomplete,omitempty"`
	// AheadHours are the node-hours of reservations that have not begun now. They are no part of NodeHours.
	AheadHours float64 `json:"ahead_hours,omitempty"`
	// Type is am.Sliver.TypeText; empty if the journal does not have it.
	Type string `json:"type,omitempty"`
}

// Hours returns the node-hours with two decimals.
func (u *Usage) Hours() string { return fmt.Sprintf("%.2f", u.NodeHours) }

// Ahead returns the node-hours reserved ahead with two decimals.
func (u *Usage) Ahead() string { return fmt.Sprintf("%.2f", u.AheadHours) }

// UsageColumns are the names of the columns of a Record.
var UsageColumns = []string{"project", "user", "nodes", "node_hours", "type", "ahead_hours"}

// Record returns a row for a file of comma-separated values.
func (u *Usage) Record() []string {
	return []string{display.Line(u.Project), display.Line(u.User.String()), fmt.Sprint(u.Nodes), u.Hours(), display.Line(u.Type), u.Ahead()}
}

// ParsePeriod reads the period of a list of usage: by default this month, in UTC, until now.
func ParsePeriod(from, until string, now time.Time) (since, end time.Time, err error) {
	if since, err = ParsePast("--from", from, now); err != nil {
		return since, end, err
	}
	if from == "" {
		year, month, _ := now.UTC().Date()
		since = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	}
	if end, err = ParsePast("--until", until, now); err != nil {
		return since, end, err
	}
	if until == "" {
		end = now
	}
	if !end.After(since) {
		err = fmt.Errorf("--from is %s, which is not before --until, %s", display.Time(since), display.Time(end))
	}
	return since, end, err
}

// MissingUsage describes usage since a time that a journal, kept for the duration keep, no longer has, or returns "".
// incomplete is the sum of Usage.Incomplete.
func MissingUsage(since, now time.Time, keep time.Duration, incomplete int) string {
	var parts []string
	if begin := now.Add(-keep); keep > 0 && since.Before(begin) {
		parts = append(parts, "nodes released before "+display.Time(begin)+" are not counted")
	}
	if incomplete > 0 {
		parts = append(parts, "the user and the beginning of "+display.Count(incomplete, "node")+" are unknown, so the time counts from the journal's first entry")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Note: the journal does not have the whole period (journal_keep is %s): %s.", display.Duration(keep), strings.Join(parts, "; "))
}

// Usage lists node-hours by project, user and type. Since and Until bound the period, which ends now at
// the latest. The only other filters that apply are those for slices and users. Usage fails with
// an error of the store, or with the first error that row returns.
func (d *Operations) Usage(f Filter, row func(Usage) error) error {
	w := d.parseFilter(f)
	return d.cfg.Store.Read(func(v *store.View) error {
		until := v.Now()
		if !f.Until.IsZero() && f.Until.Before(until) {
			until = f.Until
		}
		count := newUsageCount(f.Since, until)
		err := v.Journal(func(e am.JournalEntry) bool {
			if w.slice.matchAll() || w.slice.matchURN(e.Slice) {
				count.addEntry(&e)
			}
			return true
		})
		if err != nil {
			return err
		}
		err = v.Slivers(func(x am.Sliver) bool {
			if w.slice.matchAll() || w.slice.matchSliver(&x) {
				count.addHeld(&x)
			}
			return true
		})
		if err != nil {
			return err
		}
		p := &page[Usage]{limit: f.Limit, row: row}
		for _, r := range count.rows() {
			if (w.user.matchAll() || w.user.matchURN(r.User)) && !p.add(r) {
				break
			}
		}
		return p.err
	})
}

// usageCount adds up the time for which slivers were held between since and until.
type usageCount struct {
	since, until time.Time
	first        time.Time // time of the first journal entry
	open         map[string]holding
	totals       map[usageKey]*usageTotal
}

type holding struct {
	user urn.URN
	kind string    // Usage.Type
	from time.Time // time of the Provision; zero before it
}

type usageKey struct{ user, project, kind string }

type usageTotal struct {
	Usage
	held, ahead time.Duration
}

func newUsageCount(since, until time.Time) *usageCount {
	return &usageCount{since: since, until: until, open: map[string]holding{}, totals: map[usageKey]*usageTotal{}}
}

// addEntry adds an entry of the journal. Call it with the oldest entry first.
func (c *usageCount) addEntry(e *am.JournalEntry) {
	if c.first.IsZero() {
		c.first = e.At
	}
	for i, s := range e.Slivers {
		h, known := c.open[s.Key()]
		if !known {
			h.user = e.Caller
			if i < len(e.Types) {
				h.kind = e.Types[i]
			}
		}
		switch e.Event {
		case "Allocate": // of a known sliver: a change of its slice kept it
			c.open[s.Key()] = h
		case "CreateSliver", "Provision":
			h.from = e.At
			c.open[s.Key()] = h
		case lease.EventNoShow:
			delete(c.open, s.Key())
		case string(am.EventDelete), string(am.EventExpire):
			delete(c.open, s.Key())
			if !known {
				c.addPeriod(holding{from: c.first}, e.Slice, e.At, true)
			} else if !h.from.IsZero() {
				c.addPeriod(h, e.Slice, e.At, false)
			}
		}
	}
}

// addHeld adds a sliver of the store. Call it after all entries are added. If the journal no
// longer has the Provision, the sliver counts from its reservation or start, usually minutes earlier.
func (c *usageCount) addHeld(x *am.Sliver) {
	if x.Waits() {
		c.total(x.Creator, x.TypeText(), x.Slice).ahead += x.Ends.Sub(x.Begins)
	}
	if x.Status.Allocation != am.Provisioned {
		return
	}
	from := c.open[x.URN.Key()].from
	if from.IsZero() {
		from = x.Start()
	}
	c.addPeriod(holding{x.Creator, x.TypeText(), from}, x.Slice, c.until, false)
}

func (c *usageCount) addPeriod(h holding, slice urn.URN, to time.Time, incomplete bool) {
	from := h.from
	if from.Before(c.since) {
		from = c.since
	}
	if to.After(c.until) {
		to = c.until
	}
	if !to.After(from) {
		return
	}
	t := c.total(h.user, h.kind, slice)
	t.held += to.Sub(from)
	t.Nodes++
	if incomplete {
		t.Incomplete++
	}
}

// total returns the row of a user's nodes of a kind in the project of a slice.
func (c *usageCount) total(user urn.URN, kind string, slice urn.URN) *usageTotal {
	project := am.ProjectOf(slice)
	key := usageKey{user.Key(), strings.ToLower(project), kind}
	t := c.totals[key]
	if t == nil {
		t = &usageTotal{Usage: Usage{User: user, Project: project, Type: kind}}
		c.totals[key] = t
	}
	return t
}

func (c *usageCount) rows() (all []Usage) {
	for _, t := range c.totals {
		t.NodeHours, t.AheadHours = math.Round(t.held.Hours()*1e4)/1e4, math.Round(t.ahead.Hours()*1e4)/1e4
		all = append(all, t.Usage)
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Project), strings.ToLower(b.Project)), strings.Compare(a.User.Key(), b.User.Key()), strings.Compare(a.Type, b.Type))
	})
	return all
}
