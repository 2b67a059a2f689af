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
		if s.Status.Allocation == am.Allocated {
			gone = append(gone, s)
			continue
		}
		s.Status, s.Desired, s.Error = to, am.Desired{}, ""
		s.Generation++
		kept = append(kept, s)
	}
	out := store.ChangeSet{Expect: cs.Expect, Put: slices.Clone(cs.Put), Delete: slices.Clone(cs.Delete)}
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
	for _, s := range gone {
		remove(cs, store.SliverKey(s.URN), store.TaskKey(s.URN))
	}
	if err := count(v, cs, gone); err != nil {
		return err
	}
	for _, u := range slicesOf(gone) {
		left, err := remaining(v, cs, u)
		if err != nil {
			return err
		}
		inUse := map[string]bool{"": true}
		for _, s := range left {
			inUse[s.Document] = true
		}
		for _, s := range gone {
			if s.Slice.Equal(u) && !inUse[s.Document] {
				inUse[s.Document] = true
				remove(cs, store.DocumentKey(s.Document))
			}
		}
		if len(left) > 0 {
			continue
		}
		slice, err := sliceOf(v, cs, u)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case slice.Shutdown.IsZero():
			remove(cs, store.SliceKey(u))
		}
	}
	return nil
}

// remove deletes records even where cs already puts them: a store deletes
// before it puts.
func remove(cs *store.ChangeSet, keys ...store.Key) {
	cs.Put = slices.DeleteFunc(cs.Put, func(r store.Record) bool { return slices.Contains(keys, r.Key) })
	cs.Remove(keys...)
}

// remaining are the slivers that the slice will have: those in v and those put
// by cs, without those that cs deletes.
func remaining(v *store.View, cs *store.ChangeSet, slice urn.URN) ([]am.Sliver, error) {
	left, err := v.SliversOf(slice)
	if err != nil {
		return nil, err
	}
	deleted := map[store.Key]bool{}
	for _, k := range cs.Delete {
		deleted[k] = true
	}
	left = slices.DeleteFunc(left, func(s am.Sliver) bool { return deleted[store.SliverKey(s.URN)] })
	for _, r := range cs.Put {
		if s, ok := r.Value.(am.Sliver); ok && s.Slice.Equal(slice) {
			left = append(left, s)
		}
	}
	return left, nil
}

// count counts one change for the slices of the slivers. A slice that cs
// already puts has been counted by whoever put it.
func count(v *store.View, cs *store.ChangeSet, slivers []am.Sliver) error {
	for _, u := range slicesOf(slivers) {
		if put(cs, u) != nil {
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

// sliceOf is the slice's record as cs will leave it.
func sliceOf(v *store.View, cs *store.ChangeSet, u urn.URN) (am.Slice, error) {
	if s := put(cs, u); s != nil {
		return *s, nil
	}
	s, _, err := v.Slice(u)
	return s, err
}

// put is the slice's record that cs puts last, or nil.
func put(cs *store.ChangeSet, u urn.URN) *am.Slice {
	k := store.SliceKey(u)
	for _, r := range slices.Backward(cs.Put) {
		if s, ok := r.Value.(am.Slice); ok && r.Key == k {
			return &s
		}
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
