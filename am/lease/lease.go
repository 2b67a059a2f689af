package lease

import (
	"errors"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Release adds to cs what ends the slivers, as read in v, by event e, which is
// am.EventDelete or am.EventExpire; request is the id of the call, for the log.
// It is all or nothing: where the table of transitions refuses one of them the
// error is that *am.Error, and cs is unchanged.
//
// Call it with all slivers of the decision at once, and after every other
// change to their slices: it may remove what was put before.
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
		if s.Status.Allocation == am.Allocated && !s.Restored {
			gone = append(gone, s)
			continue
		}
		s.Status, s.Desired, s.Error = to, am.Desired{}, ""
		s.Generation++
		kept = append(kept, s)
	}
	out := store.ChangeSet{Put: slices.Clone(cs.Put), Delete: slices.Clone(cs.Delete)}
	for _, s := range kept {
		out.PutSliver(s)
		out.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: am.GoalRemove, Since: v.Now(), Request: request})
	}
	if err := count(v, &out, kept); err != nil {
		return err
	}
	if err := Forget(v, &out, gone); err != nil {
		return err
	}
	*cs = out
	return nil
}

// Forget adds to cs what deletes the records and tasks of slivers of which
// nothing is left anywhere, the documents that no other sliver came from, and
// the slices that have no sliver left and are not shut down.
func Forget(v *store.View, cs *store.ChangeSet, gone []am.Sliver) error {
	remove(cs, keysOf(gone))
	if err := count(v, cs, gone); err != nil {
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
		case slice.Shutdown.IsZero():
			drop = append(drop, store.SliceKey(u))
		}
	}
	remove(cs, drop)
	return nil
}

// keysOf are those of the slivers and their tasks.
func keysOf(slivers []am.Sliver) []store.Key {
	var keys []store.Key
	for _, s := range slivers {
		keys = append(keys, store.SliverKey(s.URN), store.TaskKey(s.URN))
	}
	return keys
}

// remove deletes records even where cs already puts them: a store deletes
// before it puts.
func remove(cs *store.ChangeSet, keys []store.Key) {
	drop := make(map[store.Key]bool, len(keys))
	for _, k := range keys {
		drop[k] = true
	}
	cs.Put = slices.DeleteFunc(cs.Put, func(r store.Record) bool { return drop[r.Key] })
	cs.Remove(keys...)
}

// count counts one change for the slices of the slivers. A slice that cs
// already puts has been counted by whoever put it.
func count(v *store.View, cs *store.ChangeSet, slivers []am.Sliver) error {
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

// slicesOf are the slices of the slivers, each once, in order.
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
