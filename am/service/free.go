package service

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/inventory"
)

// Free says what is available now, by type. It is public, so it has no slices and no users. Callers must not change it.
type Free struct {
	// At is when the site first found this answer, which has not changed since then.
	At    time.Time  `json:"at"`
	Types []FreeType `json:"types"`
	// Lockdown is the operators' text about a lockdown, during which nothing is free; "" for none.
	Lockdown string `json:"lockdown,omitempty"`
	// Maintenance are the present and the planned windows, earliest first.
	Maintenance []FreeMaintenance `json:"maintenance,omitempty"`
	// Changes is the earliest time at which the answer may change without a change of the store; zero if there is none.
	Changes time.Time `json:"-"`
	// Version is different for each different answer of this Service, and never 0.
	Version uint64 `json:"-"`
}

// FreeType counts the components that offer the same sliver type and have the same hardware types. A component that offers
// several sliver types counts for each of them.
type FreeType struct {
	// Name is that of the sliver type.
	Name     string   `json:"name"`
	Hardware []string `json:"hardware,omitempty"`
	// Kind is exclusive or shared. The numbers count components if it is exclusive, otherwise the slivers that fit on them.
	Kind  string `json:"kind"`
	Total int    `json:"total"`
	// InService leaves out components that are drained or under maintenance.
	InService int `json:"in_service"`
	Free      int `json:"free"`
	// Cleaning counts those that will be free when their cleaning ends.
	Cleaning int `json:"cleaning,omitempty"`
	// NextFree estimates when one is free again for an hour at least, from the ends of leases, the usual time of cleaning, reservations
	// and the plan of maintenance.
	// It is zero if one is free or no such time is known.
	NextFree time.Time `json:"next_free,omitzero"`
}

// FreeMaintenance is a window of maintenance.
type FreeMaintenance struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Text  string    `json:"text"`
	// Components are names, and ranges such as pc1..pc4. If there are none, the window applies to the whole site.
	Components []string `json:"components,omitempty"`
}

// freeCache has the last result of Free.
type freeCache struct {
	last   atomic.Pointer[freeResult]
	making sync.Mutex    // held while last is replaced
	begun  atomic.Uint64 // the number of results that were begun
}

type freeResult struct {
	Free
	inventory *inventory.Inventory
	plan      *maintenance.Plan
	revision  store.Rev
	made      time.Time
	number    uint64 // see freeCache.begun
}

// typeMembers are the components of a FreeType.
type typeMembers struct {
	FreeType // of an empty site
	needs    am.Amount
	members  []int // indexes of the components
}

func (r *freeResult) isCurrent(s *Service) bool {
	now := s.cfg.Store.Now()
	return r != nil && r.revision == s.cfg.Store.Revision() && r.plan == s.plan.Load() && r.inventory == s.Inventory() &&
		!now.Before(r.made) && (r.Changes.IsZero() || now.Before(r.Changes))
}

// Free returns what is available now. Calls share one result until it changes. It fails if the store cannot be read.
func (s *Service) Free() (Free, error) {
	begun := s.free.begun.Load()
	if r := s.free.last.Load(); r.isCurrent(s) {
		return r.Free, nil
	}
	s.free.making.Lock()
	defer s.free.making.Unlock()
	was := s.free.last.Load()
	// A result that was begun during this call is new enough, even if the store has changed again.
	if was != nil && was.number > begun || was.isCurrent(s) {
		return was.Free, nil
	}
	r, err := s.makeFree(was)
	if err != nil {
		return Free{}, err
	}
	s.free.last.Store(r)
	return r.Free, nil
}

// makeFree returns a new result. It keeps what has not changed since the result was, which may be nil.
func (s *Service) makeFree(was *freeResult) (*freeResult, error) {
	r := &freeResult{inventory: s.Inventory(), plan: s.plan.Load(), number: s.free.begun.Add(1)}
	err := s.cfg.Store.Read(func(v *store.View) error {
		r.revision, r.made = v.Revision(), v.Now().UTC()
		r.addPlan()
		a, err := (&binder.View{Inventory: r.inventory, Plan: r.plan, Calendar: v.Calendar, Now: v.Now()}).Vacancy()
		if err == nil {
			r.count(a)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.At, r.Version = r.made.Truncate(time.Second), r.number
	if was != nil && was.Lockdown == r.Lockdown && reflect.DeepEqual(was.Types, r.Types) && reflect.DeepEqual(was.Maintenance, r.Maintenance) {
		r.At, r.Version = was.At, was.Version
	}
	return r, nil
}

// addPlan adds what the plan says to r, and the next time at which a window begins or ends.
func (r *freeResult) addPlan() {
	if r.plan == nil {
		return
	}
	if r.plan.Lockdown != nil {
		r.Lockdown = r.plan.Lockdown.Text
	}
	for _, w := range r.plan.Planned {
		if w.Until.After(r.made) {
			r.Maintenance = append(r.Maintenance, FreeMaintenance{w.From, w.Until, w.Text, w.Components})
		}
	}
	slices.SortStableFunc(r.Maintenance, func(a, b FreeMaintenance) int { return a.From.Compare(b.From) })
	_, r.Changes = r.plan.StablePeriod(r.made)
}

// count adds the numbers of all types to r, and the next time at which they change.
func (r *freeResult) count(a *binder.Vacancy) {
	r.Types = []FreeType{}
	if at := a.NextStart(); !at.IsZero() && (r.Changes.IsZero() || at.Before(r.Changes)) {
		r.Changes = at
	}
	for _, m := range typesOf(r.inventory, a) {
		t := m.FreeType
		for _, i := range m.members {
			inService, free, cleaning := a.Count(i, m.needs)
			t.InService, t.Free, t.Cleaning = t.InService+inService, t.Free+free, t.Cleaning+cleaning
		}
		if r.Lockdown != "" {
			t.Free, t.Cleaning = 0, 0
		}
		for k := 0; k < len(m.members) && t.Free == 0 && r.Lockdown == ""; k++ {
			if at := a.NextFree(m.members[k], m.needs, t.NextFree); !at.IsZero() {
				t.NextFree = at
			}
		}
		if !t.NextFree.IsZero() && (r.Changes.IsZero() || t.NextFree.Before(r.Changes)) {
			r.Changes = t.NextFree
		}
		r.Types = append(r.Types, t)
	}
}

// typesOf groups the components, in the order of the inventory's sliver types.
func typesOf(v *inventory.Inventory, a *binder.Vacancy) (types []typeMembers) {
	for _, t := range v.SliverTypes {
		rows := map[string]int{}
		for i, c := range v.Components {
			if !c.Offers(t) {
				continue
			}
			kind := "shared"
			if c.Exclusive {
				kind = "exclusive"
			}
			key := kind + "\x00" + strings.Join(c.HardwareTypes, "\x00")
			k, ok := rows[key]
			if !ok {
				k, rows[key] = len(types), len(types)
				types = append(types, typeMembers{FreeType: FreeType{Name: t.Name, Hardware: c.HardwareTypes, Kind: kind}, needs: t.Needs})
			}
			types[k].Total += a.Total(i, t.Needs)
			types[k].members = append(types[k].members, i)
		}
	}
	return types
}
