package service

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Calendar says when components are held, by type. It is public, so it has no slices and no users, except for those whose
// slices the caller has named.
type Calendar struct {
	At    time.Time      `json:"at"`
	From  time.Time      `json:"from"`
	Until time.Time      `json:"until"`
	Types []CalendarType `json:"types"`
	// Lockdown and Maintenance are those of Free.
	Lockdown    string            `json:"lockdown,omitempty"`
	Maintenance []FreeMaintenance `json:"maintenance,omitempty"`
}

// CalendarType is a type as in FreeType, with its components.
type CalendarType struct {
	Name     string   `json:"name"`
	Hardware []string `json:"hardware,omitempty"`
	Kind     string   `json:"kind"`
	Total    int      `json:"total"`
	// Free says how many slivers fit. The first entry is at Calendar.From, and each entry lasts until the next one.
	Free       []FreeAt            `json:"free"`
	Components []CalendarComponent `json:"components"`
}

// FreeAt is the number of slivers that fit from a time on.
type FreeAt struct {
	From time.Time `json:"from"`
	Free int       `json:"free"`
}

// CalendarComponent is a component with the windows in which it is not wholly free, in the order of time.
type CalendarComponent struct {
	Name    string           `json:"name"`
	Windows []CalendarWindow `json:"windows,omitempty"`
}

// CalendarWindow is a time during which nothing changes on a component.
type CalendarWindow struct {
	// Kind is ahead, held, cleaning, maintenance or drained: the last one of these that applies.
	Kind string `json:"kind"`
	// From is zero if the window has begun. Until is zero if its end is unknown.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Free is the number of slivers that still fit on a shared component.
	Free int `json:"free,omitempty"`
	// Mine is one of the slices that the caller has named and that holds something; zero for none.
	Mine urn.URN `json:"-"`
}

// Kinds of windows, in the order in which one hides another.
const (
	aheadKind = iota
	heldKind
	cleaningKind
	maintenanceKind
	drainedKind
	kinds
)

var kindNames = [kinds]string{"ahead", "held", "cleaning", "maintenance", "drained"}

// unknownEnd is the end of a span whose end is unknown, in Unix time.
const unknownEnd = math.MaxInt64

// span is the time from and until, in Unix time, in which something holds a component. from is 0 if it has begun.
type span struct {
	from, until int64
	amount      am.Amount
	slice       am.Hash
	exclusive   bool
	kind        uint8
}

// calendarCache has the last spans that Calendar read.
type calendarCache struct {
	last   atomic.Pointer[calendarSpans]
	making sync.Mutex // held while last is replaced
}

type calendarSpans struct {
	inventory *inventory.Inventory
	plan      *maintenance.Plan
	revision  store.Rev
	types     []typeMembers
	holds     [][]am.Hold // by component; without names
}

// Calendar returns what is held from the time from up to until. mine are slices that the answer may show.
// Calls share what they read of the store until it changes. Calendar fails if the store cannot be read.
func (s *Service) Calendar(from, until time.Time, mine []urn.URN) (*Calendar, error) {
	x, err := s.calendarSpans()
	if err != nil {
		return nil, err
	}
	now := s.cfg.Store.Now().UTC()
	plan := freeResult{plan: x.plan, made: now}
	plan.addPlan()
	c := &Calendar{At: now.Truncate(time.Second), From: from.UTC(), Until: until.UTC(), Types: []CalendarType{}, Lockdown: plan.Lockdown, Maintenance: plan.Maintenance}
	w := calendarSweep{from: from.Unix(), until: until.Unix(), slices: map[am.Hash]urn.URN{}}
	for _, u := range mine {
		w.slices[am.HashOf(u)] = u
	}
	spans := make([][]span, len(x.inventory.Components))
	for i, k := range x.inventory.Components {
		spans[i] = x.spansOf(i, k, now)
	}
	for _, m := range x.types {
		w.needs, w.changes = m.needs, map[int64]int{w.from: 0}
		t := CalendarType{Name: m.Name, Hardware: m.Hardware, Kind: m.Kind, Total: m.Total, Components: make([]CalendarComponent, 0, len(m.members))}
		for _, i := range m.members {
			k := x.inventory.Components[i]
			t.Components = append(t.Components, CalendarComponent{k.Name, w.windows(k, spans[i])})
		}
		t.Free = w.free()
		c.Types = append(c.Types, t)
	}
	return c, nil
}

// calendarSpans returns what the store holds now.
func (s *Service) calendarSpans() (*calendarSpans, error) {
	isCurrent := func(x *calendarSpans) bool {
		return x != nil && x.revision == s.cfg.Store.Revision() && x.plan == s.plan.Load() && x.inventory == s.Inventory()
	}
	if x := s.calendar.last.Load(); isCurrent(x) {
		return x, nil
	}
	s.calendar.making.Lock()
	defer s.calendar.making.Unlock()
	if x := s.calendar.last.Load(); isCurrent(x) {
		return x, nil
	}
	x := &calendarSpans{inventory: s.Inventory(), plan: s.plan.Load()}
	x.holds = make([][]am.Hold, len(x.inventory.Components))
	nothing := func(func(*am.Hold) bool) error { return nil }
	empty, err := (&binder.View{Inventory: x.inventory, Calendar: nothing, Now: s.cfg.Store.Now()}).Vacancy()
	if err != nil {
		return nil, err
	}
	x.types = typesOf(x.inventory, empty)
	err = s.cfg.Store.Read(func(v *store.View) error {
		x.revision = v.Revision()
		return v.Calendar(func(h *am.Hold) bool {
			c, ok := x.inventory.ComponentWithKey(h.Component)
			if !ok { // its URN may have changed
				c, ok = x.inventory.ComponentNamed(string(h.ComponentName))
				ok = ok && c.Provider == string(h.Provider)
			}
			if ok {
				x.holds[c.Index] = append(x.holds[c.Index], am.Hold{From: h.From, Until: h.Until, Amount: h.Amount, Exclusive: h.Exclusive, Cleaning: h.Cleaning, Slice: h.Slice})
			}
			return true
		})
	})
	if err != nil {
		return nil, err
	}
	s.calendar.last.Store(x)
	return x, nil
}

// spansOf returns the spans of component i, which is c: its holds, maintenance and drain.
func (x *calendarSpans) spansOf(i int, c *inventory.Component, now time.Time) (list []span) {
	unix := func(t time.Time, zero int64) int64 {
		if t.IsZero() {
			return zero
		}
		return t.Unix()
	}
	for k := range x.holds[i] {
		h := &x.holds[i][k]
		n := span{unix(h.From, 0), unix(h.End(now), unknownEnd), h.Amount, h.Slice, h.Exclusive, heldKind}
		switch {
		case h.Cleaning || !h.Until.IsZero() && !h.Until.After(now):
			n.kind = cleaningKind
		case h.From.After(now):
			n.kind = aheadKind
		}
		list = append(list, n)
	}
	for _, w := range x.plan.Windows(c.Name) {
		list = append(list, span{from: w.From.Unix(), until: w.Until.Unix(), kind: maintenanceKind})
	}
	if c.Drained || x.plan.Drain(c.Name) != nil {
		list = append(list, span{until: unknownEnd, kind: drainedKind})
	}
	return list
}

// calendarSweep makes the windows of the components of one type.
type calendarSweep struct {
	from, until int64
	slices      map[am.Hash]urn.URN // those of the caller
	needs       am.Amount
	changes     map[int64]int // how the number of free slivers of the type changes, by time
}

// edge is the begin or the end of a span.
type edge struct {
	at   int64
	sign int64
	span *span
}

// windows returns the windows of a component with spans, and counts what is free in w.changes.
func (w *calendarSweep) windows(c *inventory.Component, spans []span) (list []CalendarWindow) {
	edges := make([]edge, 0, 2*len(spans)+1)
	for i := range spans {
		n := &spans[i]
		if n.from < w.until && n.until > w.from && n.until > n.from {
			edges = append(edges, edge{n.from, 1, n}, edge{n.until, -1, n})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var used am.Amount
	var count [kinds]int64
	exclusive, mine := int64(0), map[urn.URN]int64(nil)
	free := w.room(c, used, 0, 0)
	w.changes[w.from] += free
	for i := 0; i < len(edges); {
		at := edges[i].at
		for ; i < len(edges) && edges[i].at == at; i++ {
			e := edges[i]
			count[e.span.kind] += e.sign
			if e.span.exclusive {
				exclusive += e.sign
			}
			used = used.Add(e.span.amount.Times(e.sign))
			if u, isMine := w.slices[e.span.slice]; isMine {
				if mine == nil {
					mine = map[urn.URN]int64{}
				}
				if mine[u] += e.sign; mine[u] == 0 {
					delete(mine, u)
				}
			}
		}
		left, kind := w.room(c, used, count[aheadKind]+count[heldKind]+count[cleaningKind], exclusive), kinds-1
		if count[maintenanceKind]+count[drainedKind] > 0 {
			left = 0
		}
		if at < w.until {
			w.changes[max(at, w.from)] += left - free
		}
		free = left
		for kind >= 0 && count[kind] == 0 {
			kind--
		}
		if kind < 0 || i == len(edges) || edges[i].at <= w.from || at >= w.until {
			continue
		}
		n := CalendarWindow{Kind: kindNames[kind], Free: left}
		if at > 0 {
			n.From = time.Unix(at, 0).UTC()
		}
		if edges[i].at < unknownEnd {
			n.Until = time.Unix(edges[i].at, 0).UTC()
		}
		for u := range mine {
			if n.Mine.IsZero() || u.Name < n.Mine.Name {
				n.Mine = u
			}
		}
		list = append(list, n)
	}
	return list
}

// room returns how many slivers of the type fit on c for another slice, beside held slivers that take used.
func (w *calendarSweep) room(c *inventory.Component, used am.Amount, held, exclusive int64) int {
	switch {
	case exclusive > 0, c.Exclusive && held > 0:
		return 0
	case c.Exclusive:
		return 1
	}
	return int(am.Fits(c.Capacity, used, w.needs, math.MaxInt32))
}

// free returns how many slivers of the type fit, by w.changes.
func (w *calendarSweep) free() (list []FreeAt) {
	times := make([]int64, 0, len(w.changes))
	for at := range w.changes {
		times = append(times, at)
	}
	slices.Sort(times)
	n := 0
	for i, at := range times {
		if n += w.changes[at]; i == 0 || n != list[len(list)-1].Free {
			list = append(list, FreeAt{time.Unix(at, 0).UTC(), n})
		}
	}
	return list
}
