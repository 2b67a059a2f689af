package lease

import (
	"errors"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Release adds to cs the changes that release slivers, which must be the records in v. The
// event e is am.EventDelete or am.EventExpire; request is the id of the call, for the log. If
// am.Next refuses the event for a sliver, Release returns this *am.Error and leaves cs
// unchanged.
//
// Call Release with all slivers of the decision at once, and after all other changes to
// their slices, because it may delete records that cs stores.
func Release(v *store.View, cs *store.ChangeSet, slivers []am.Sliver, e am.Event, request string) error {
	var gone, kept []am.Sliver
	for _, s := range slivers {
		to, err := am.Next(s.Status, e)
		if err != nil {
			if refused, ok := errors.AsType[*am.Error](err); ok {
				return refused.About(s.URN)
			}
			return err
		}
		if s.Status.Allocation == am.Allocated && (!s.Restored || s.Waits() && s.Begins.After(v.Now())) { // nothing exists before the start
			gone = append(gone, s)
			continue
		}
		s.Status, s.Desired, s.Error = to, am.Desired{Uninstall: e == am.EventDelete && s.HasUninstall()}, ""
		s.Generation++
		kept = append(kept, s)
	}
	out := cs.Clone()
	for _, s := range kept {
		out.PutSliver(s)
		out.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: am.GoalRemove, Since: v.Now(), Request: request})
	}
	if err := countChanges(v, &out, kept); err != nil {
		return err
	}
	if err := Forget(v, &out, gone); err != nil {
		return err
	}
	*cs = out
	return nil
}

// Forget deletes slivers that have no resource left: it adds to cs the deletion of their
// records and tasks. It also deletes documents that no other sliver needs, and slices that have
// no other sliver, are not shut down, and have no definitions that last.
func Forget(v *store.View, cs *store.ChangeSet, gone []am.Sliver) error {
	cs.Drop(keysOf(gone)...)
	if err := countChanges(v, cs, gone); err != nil {
		return err
	}
	d := draftOf(v, cs)
	var drop []store.Key
	bySlice := map[string][]am.Sliver{}
	for _, s := range gone {
		bySlice[s.Slice.Key()] = append(bySlice[s.Slice.Key()], s)
	}
	for _, u := range slicesOf(gone) {
		unused, empty, err := d.leftover(u, bySlice[u.Key()])
		if err != nil {
			return err
		}
		for _, id := range unused {
			drop = append(drop, store.DocumentKey(id))
		}
		if !empty {
			continue
		}
		slice, err := d.slice(u)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case slice.Shutdown.IsZero() && !v.Now().Before(slice.DefinedUntil):
			drop = append(append(drop, store.SliceKey(u)), definitionKeys(slice)...)
		}
	}
	cs.Drop(drop...)
	return nil
}

func keysOf(slivers []am.Sliver) []store.Key {
	var keys []store.Key
	for _, s := range slivers {
		keys = append(keys, store.SliverKey(s.URN), store.TaskKey(s.URN))
	}
	return keys
}

// countChanges adds 1 to the Serial of each slice. It skips a slice that does not exist, and a
// slice that cs stores already, because the Serial of that slice has been increased.
func countChanges(v *store.View, cs *store.ChangeSet, slivers []am.Sliver) error {
	counted := draftOf(v, cs).put
	for _, u := range slicesOf(slivers) {
		if _, ok := counted[u.Key()]; ok {
			continue
		}
		s, _, err := v.Slice(u)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		s.Serial++
		cs.PutSlice(s)
	}
	return nil
}

func slicesOf(slivers []am.Sliver) []urn.URN {
	var out []urn.URN
	seen := map[string]bool{}
	for _, s := range slivers {
		if k := s.Slice.Key(); !seen[k] {
			seen[k] = true
			out = append(out, s.Slice)
		}
	}
	return out
}
