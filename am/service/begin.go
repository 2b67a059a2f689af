package service

import (
	"cmp"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/service/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Begin begins the slivers whose start has come, at most limit of them, for the runner. A sliver waits while the site
// is locked down, and while its component is under maintenance or still held. Its deadline is moved by
// the time that it has waited. If its component cannot be used for long, the sliver gets an equal one; if there is none,
// it waits with this error.
func (s *Service) Begin(v *store.View, limit int) (cs store.ChangeSet, begun []am.Sliver, err error) {
	if s.checkLockdown() != nil {
		return cs, nil, nil
	}
	mover := s.mover()
	bySlice := map[string][]am.Sliver{}
	var failed error
	_, err = v.EachStarting(func(x am.Sliver) bool {
		was := x.Error
		var isReady bool
		if isReady, failed = s.makeReady(v, &cs, &mover, &x); isReady {
			s.begin(v, &cs, &x)
			bySlice[x.Slice.Key()] = append(bySlice[x.Slice.Key()], x)
			begun = append(begun, x)
		} else if x.Error != was {
			cs.PutSliver(x)
		}
		return failed == nil && len(cs.Slivers) < limit
	})
	if err = cmp.Or(failed, err); err != nil {
		return store.ChangeSet{}, nil, err
	}
	for _, list := range bySlice {
		if err = countChange(&cs, v, list[0].Slice); err != nil {
			return store.ChangeSet{}, nil, err
		}
		lease.LogBegin(v, &cs, list)
	}
	return cs, begun, nil
}

// mover returns what moves slivers in one decision, no two of them to the same component.
func (s *Service) mover() lease.Mover {
	return lease.Mover{Inventory: s.Inventory(), Plan: s.plan.Load(), Allows: s.allowsComponent}
}

// makeReady reports whether x, whose start has come, can begin, on its component or on an equal one. If something hinders it
// that may last, makeReady sets the error of x.
func (s *Service) makeReady(v *store.View, cs *store.ChangeSet, m *lease.Mover, x *am.Sliver) (bool, error) {
	// It was late until its end, and is released next, or its call is not over.
	if x.Frozen || !x.Ends.After(v.Now()) || !x.ProbedUntil.IsZero() {
		return false, nil
	}
	why, err := m.Obstacle(v, x)
	if err == nil && why != "" {
		if isFree, err := hasNamesFree(v, x); err != nil || !isFree {
			return false, err
		}
		x.Error = why + "; this sliver waits for it"
		if lease.IsMovable(x) {
			x.Error = why + "; no equal one is free, so this sliver waits"
		}
		isMoved, err := m.Move(v, x)
		if isMoved {
			cs.Log(am.JournalEntry{At: v.Now().UTC(), Event: lease.EventMove, Slice: x.Slice, Slivers: []urn.URN{x.URN}, Text: "to " + x.ComponentName + ": " + why})
		}
		return isMoved, err
	}
	if err != nil {
		return false, err
	}
	x.Error = ""
	return s.canBegin(v, x)
}

func (s *Service) allowsComponent(x *am.Sliver, c *inventory.Component) bool {
	allowed := binderPermit(s.cfg.Policy.For(x.Creator, x.Slice)).Components
	_, found := slices.BinarySearch(allowed, int32(c.Index))
	return allowed == nil || found
}

// begin begins x: it is provisioned if it was reserved so, and else it waits for Provision until its deadline. If
// the deny list or the policy refuses the user meanwhile, x gets this error, and is released at its deadline.
func (s *Service) begin(v *store.View, cs *store.ChangeSet, x *am.Sliver) {
	now := v.Now().UTC()
	var refused error
	if s.cfg.Denied != nil {
		refused = s.cfg.Denied(x.Creator, x.Slice)
	}
	refused = cmp.Or(refused, s.cfg.Policy.For(x.Creator, x.Slice).CheckUser())
	if refused == nil && x.AutoProvision {
		y := *x
		lease.Begin(&y, now, s.cfg.Leases.NoShow, nil)
		refused = s.provision(v, cs, &y, provisioning{permit: (*policy.Permit)(nil), until: y.Ends, requested: y.Ends, accounts: y.Desired.Accounts, on: true})
		if refused == nil {
			y.SetEnd(x.Ends)
			*x = y
			cs.PutSliver(y)
			return
		}
	}
	lease.Begin(x, now, s.cfg.Leases.NoShow, refused)
	cs.PutSliver(*x)
}

// Deadline returns the time at which x, whose lease is over, is released. A reservation that has begun and was not
// provisioned gets its whole time to wait after a restart of the aggregate, and after a lockdown.
func (s *Service) Deadline(v *store.View, x *am.Sliver) time.Time {
	resumed := s.resumed.Load()
	if s.checkLockdown() != nil {
		now := v.Now()
		resumed = &now
	}
	if resumed == nil || !lease.IsNoShow(x) || !resumed.After(x.Begins) {
		return x.Expires
	}
	return earliest(x.Ends, am.LaterOf(x.Expires, resumed.Add(s.cfg.Leases.NoShow)))
}

// logLimited adds a journal entry for each slice that holds an exclusive component which the call is the first to reserve
// for later: its lease can now be renewed until then only. The entry does not name who reserved.
func (a *attempt) logLimited(v *store.View, cs *store.ChangeSet) error {
	var entries []am.JournalEntry
	for i := range a.slivers {
		var holder string
		ahead := &a.slivers[i]
		if !ahead.Exclusive || !ahead.Waits() {
			continue
		}
		isFirst := true
		err := v.CalendarAt([]byte(ahead.Component.Key()), func(h *am.Hold) bool {
			if isFirst = isFirst && h.From.IsZero(); h.Exclusive && !h.Cleaning && !h.Until.IsZero() {
				holder = string(h.Sliver)
			}
			return isFirst
		})
		if err != nil {
			return err
		}
		if !isFirst || holder == "" {
			continue
		}
		u, err := urn.Parse(holder)
		if err != nil {
			return err
		}
		x, _, err := v.Sliver(u)
		if err != nil {
			return err
		}
		text := "renewable until " + ahead.Begins.Format(time.RFC3339)
		n := slices.IndexFunc(entries, func(e am.JournalEntry) bool { return e.Slice.Equal(x.Slice) && e.Text == text })
		if n < 0 {
			n = len(entries)
			entries = append(entries, am.JournalEntry{At: v.Now().UTC(), Event: lease.EventLimited, Slice: x.Slice, Text: text})
		}
		entries[n].Slivers = append(entries[n].Slivers, x.URN)
	}
	for _, e := range entries {
		cs.Log(e)
	}
	return nil
}
