package service

import (
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// heldNames are the VLAN tags and public addresses that slivers hold which have not begun, or those that have.
type heldNames struct {
	*binder.Names
	revision store.Rev
	err      error
}

// waitingNames returns the names of slivers that have not begun. Outside of decisions, they are kept until the store changes.
func (s *Service) waitingNames(v *store.View) heldNames {
	read := func() (n heldNames) { n.Names, n.err = binder.NewNames(v.EachWaiting); return n }
	if !v.IsPublished() {
		return store.Memo(v, "waiting names", read)
	}
	n := s.waiting.Load()
	if revision := v.Revision(); n == nil || n.revision != revision {
		fresh := read()
		fresh.revision = revision
		if n = &fresh; n.err == nil {
			s.waiting.Store(n)
		}
	}
	return *n
}

// begunNames returns the names of slivers that have begun, with those that were released. The decision depends on those
// that are released meanwhile.
func begunNames(v *store.View) heldNames {
	return store.Memo(v, "begun names", func() (n heldNames) {
		n.Names, n.err = binder.NewNames(func(f func(*am.Hold) bool) error {
			return v.CalendarOf(v.Now(), func(h *am.Hold) bool { return h.Cleaning }, func(h *am.Hold) bool { return !h.From.IsZero() || f(h) })
		})
		return n
	})
}

// first does what binder.Names.First does.
func (n heldNames) first(v *store.View, x *am.Sliver, from, until time.Time) (time.Time, error) {
	if n.err != nil {
		return until, n.err
	}
	return n.First(x, from, until, func(sliver string) ([]am.Interface, error) {
		u, err := urn.Parse(sliver)
		if err != nil {
			return nil, err
		}
		other, _, err := v.Sliver(u)
		return other.Interfaces, err
	})
}

// componentView returns a view with what is held on the component of x.
func (s *Service) componentView(v *store.View, x *am.Sliver) *binder.View {
	return &binder.View{Inventory: s.Inventory(), Now: v.Now(), Calendar: func(f func(*am.Hold) bool) error { return v.CalendarAt([]byte(x.Component.Key()), f) }}
}

// canBegin reports whether nothing delays the start of x, which has come.
func (s *Service) canBegin(v *store.View, x *am.Sliver) (bool, error) {
	if x.Frozen || s.checkMaintenance(v.Now().UTC(), x) != nil {
		return false, nil
	}
	if ok, err := s.componentView(v, x).CanBegin(x); err != nil || !ok {
		return ok, err
	}
	return hasNamesFree(v, x)
}

// hasNamesFree reports whether no other sliver holds a tag or the address of x still.
func hasNamesFree(v *store.View, x *am.Sliver) (bool, error) {
	if !binder.HasNames(x) {
		return true, nil
	}
	at, err := begunNames(v).first(v, x, time.Time{}, v.Now())
	return at.Equal(v.Now()), err
}

// freeUntil returns until, or the first start of a reservation before it beside which x cannot stay. That is never before
// the time until which x holds its component already.
func (s *Service) freeUntil(v *store.View, x *am.Sliver, until time.Time) (time.Time, error) {
	from := am.LaterOf(v.Now(), am.HoldOf(x).Until)
	if !from.Before(until) || !v.HasWaiting() {
		return until, nil
	}
	until, err := s.componentView(v, x).FreeUntil(x, until)
	if err != nil || !binder.HasNames(x) {
		return until, err
	}
	return s.waitingNames(v).first(v, x, from, until)
}
