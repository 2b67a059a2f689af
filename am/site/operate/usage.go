package operate

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Usage is a row of the list of usage: the node-hours of one user in one project. A node counts
// from its Provision (CreateSliver in version 2) until it is deleted, an operator releases it,
// or its lease is over. A node that is still held counts until the end of the period. A
// reservation alone does not count. A failed node counts, and so does a node of a slice that
// was shut down, since no other slice can use it.
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
}

// Usage lists node-hours by project and user. Since and Until bound the period, which ends now at
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
	from time.Time // time of the Provision; zero before it
}

type usageKey struct{ user, project string }

type usageTotal struct {
	Usage
	held time.Duration
}

func newUsageCount(since, until time.Time) *usageCount {
	return &usageCount{since: since, until: until, open: map[string]holding{}, totals: map[usageKey]*usageTotal{}}
}

// addEntry adds an entry of the journal. Call it with the oldest entry first.
func (c *usageCount) addEntry(e *am.JournalEntry) {
	if c.first.IsZero() {
		c.first = e.At
	}
	for _, s := range e.Slivers {
		h, known := c.open[s.Key()]
		switch e.Event {
		case "Allocate":
			c.open[s.Key()] = holding{user: e.Caller}
		case "CreateSliver":
			c.open[s.Key()] = holding{user: e.Caller, from: e.At}
		case "Provision":
			if !known {
				h.user = e.Caller
			}
			h.from = e.At
			c.open[s.Key()] = h
		case string(am.EventDelete), string(am.EventExpire):
			delete(c.open, s.Key())
			if !known {
				c.addPeriod(urn.URN{}, e.Slice, c.first, e.At, true)
			} else if !h.from.IsZero() {
				c.addPeriod(h.user, e.Slice, h.from, e.At, false)
			}
		}
	}
}

// addHeld adds a sliver of the store. Call it after all entries are added. If the journal no
// longer has the Provision, the sliver counts from its reservation, usually minutes earlier.
func (c *usageCount) addHeld(x *am.Sliver) {
	if x.Status.Allocation != am.Provisioned {
		return
	}
	from := c.open[x.URN.Key()].from
	if from.IsZero() {
		from = x.Created
	}
	c.addPeriod(x.Creator, x.Slice, from, c.until, false)
}

func (c *usageCount) addPeriod(user, slice urn.URN, from, to time.Time, incomplete bool) {
	if from.Before(c.since) {
		from = c.since
	}
	if to.After(c.until) {
		to = c.until
	}
	if !to.After(from) {
		return
	}
	key := usageKey{user.Key(), strings.ToLower(slice.Authority)}
	t := c.totals[key]
	if t == nil {
		t = &usageTotal{Usage: Usage{User: user, Project: slice.Authority}}
		c.totals[key] = t
	}
	t.held += to.Sub(from)
	t.Nodes++
	if incomplete {
		t.Incomplete++
	}
}

func (c *usageCount) rows() (all []Usage) {
	for _, t := range c.totals {
		t.NodeHours = math.Round(t.held.Hours()*1e4) / 1e4
		all = append(all, t.Usage)
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Project), strings.ToLower(b.Project)), strings.Compare(a.User.Key(), b.User.Key()))
	})
	return all
}
