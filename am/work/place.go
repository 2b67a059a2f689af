package work

import (
	"context"
	"errors"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// placesAtOnce is the maximum number of records that one decision of recordPlaces changes.
const placesAtOnce = 1000

// placeOf reads the names from the sliver's record, since the inventory may name another provider
// by now. Records of earlier versions lack the names; for these, placeOf reads the inventory. ok is
// false if the inventory does not have the component.
func (r *Runner) placeOf(s *am.Sliver) (component, provider string, ok bool) {
	if s.Provider != "" {
		return s.ComponentName, s.Provider, true
	}
	return r.cfg.Components(s.Component)
}

// recordPlaces adds the names of component and provider to records of earlier versions, if
// the inventory still has the component.
func (r *Runner) recordPlaces(ctx context.Context) {
	var open []urn.URN // without a provider
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if s.Provider == "" {
				open = append(open, s.URN)
			}
			return true
		})
	})
	for err == nil && len(open) > 0 && ctx.Err() == nil {
		some := open[:min(len(open), placesAtOnce)]
		open = open[len(some):]
		err = r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			for _, u := range some {
				s, _, err := v.Sliver(u)
				if errors.Is(err, store.ErrNotFound) || err == nil && s.Provider != "" {
					continue
				}
				if err != nil {
					return cs, err
				}
				var ok bool
				if s.ComponentName, s.Provider, ok = r.cfg.Components(s.Component); !ok {
					continue
				}
				for i := range s.Interfaces {
					if p := &s.Interfaces[i]; r.cfg.Interfaces != nil && !p.Component.IsZero() {
						p.ComponentName = r.cfg.Interfaces(p.Component)
					}
				}
				cs.PutSliver(s)
			}
			return cs, nil
		})
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		r.cfg.Log.Error("cannot record the providers of slivers of an earlier version; until the next start they are read from the inventory", "error", err)
	}
}
