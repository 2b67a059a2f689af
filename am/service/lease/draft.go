package lease

import (
	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// draft is an index of a change set that is not stored yet. It does not include changes
// that are added to the set later.
type draft struct {
	v       *store.View
	deleted map[store.Key]bool
	put     map[string]am.Slice    // the last record that the set stores for each slice
	slivers map[string][]am.Sliver // the slivers that the set stores, by slice
}

// draftOf replaces records in v by the records in cs.
func draftOf(v *store.View, cs *store.ChangeSet) *draft {
	d := &draft{v: v, deleted: map[store.Key]bool{}, put: map[string]am.Slice{}, slivers: map[string][]am.Sliver{}}
	for _, k := range cs.Delete {
		d.deleted[k] = true
	}
	for _, s := range cs.Slices {
		d.put[s.URN.Key()] = s
	}
	for _, s := range cs.Slivers {
		d.slivers[s.Slice.Key()] = append(d.slivers[s.Slice.Key()], s)
	}
	return d
}

func (d *draft) slice(u urn.URN) (am.Slice, error) {
	if s, ok := d.put[u.Key()]; ok {
		return s, nil
	}
	s, _, err := d.v.Slice(u)
	return s, err
}

// leftover examines a slice without the slivers in gone: unused lists the documents that no
// other sliver needs, and empty means that no other sliver exists. It stops reading a large
// slice as soon as both results are known.
func (d *draft) leftover(u urn.URN, gone []am.Sliver) (unused []string, empty bool, err error) {
	empty = true
	maybeUnused := map[string]bool{}
	for _, s := range gone {
		if s.Document != "" {
			maybeUnused[s.Document] = true
		}
	}
	visit := func(s am.Sliver) (goOn bool) { // another sliver of the slice
		empty = false
		delete(maybeUnused, s.Document)
		return len(maybeUnused) > 0
	}
	more := true
	for _, s := range d.slivers[u.Key()] {
		more = visit(s) && more
	}
	if more {
		err = d.v.EachOf(u, func(k store.Key) bool { return d.deleted[k] }, visit)
	}
	for _, s := range gone {
		if maybeUnused[s.Document] {
			delete(maybeUnused, s.Document)
			unused = append(unused, s.Document)
		}
	}
	return unused, empty, err
}

// DropDocuments adds to cs the deletion of the documents of slivers as they were before cs, if no
// sliver needs them any more.
func DropDocuments(v *store.View, cs *store.ChangeSet, slice urn.URN, before []am.Sliver) error {
	d := draftOf(v, cs)
	for _, s := range d.slivers[slice.Key()] {
		d.deleted[store.SliverKey(s.URN)] = true
	}
	unused, _, err := d.leftover(slice, before)
	for _, id := range unused {
		cs.Remove(store.DocumentKey(id))
	}
	return err
}
