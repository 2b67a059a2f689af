package lease

import (
	"errors"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// DropDefinitions adds to cs the deletion of the documents that only define something for a slice. It
// also deletes a slice that has no sliver and is not shut down.
func DropDefinitions(v *store.View, cs *store.ChangeSet, slice urn.URN) error {
	rec, err := draftOf(v, cs).slice(slice)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(rec.Definitions) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	cs.Drop(definitionKeys(rec)...)
	empty := true
	if err := v.EachOf(slice, nil, func(am.Sliver) bool { empty = false; return false }); err != nil {
		return err
	}
	if empty && rec.Shutdown.IsZero() {
		cs.Drop(store.SliceKey(slice))
		return nil
	}
	rec.Serial++
	rec.Definitions, rec.DefinedUntil = nil, time.Time{}
	cs.PutSlice(rec)
	return nil
}

func definitionKeys(s am.Slice) (keys []store.Key) {
	for _, id := range s.Definitions {
		keys = append(keys, store.DocumentKey(id))
	}
	return keys
}

// EndedDefinitions returns at most limit slices without slivers whose definitions have ended by now.
func EndedDefinitions(v *store.View, limit int) (due []urn.URN, err error) {
	var failed error
	err = v.Slices(func(s am.Slice) bool {
		if len(s.Definitions) == 0 || v.Now().Before(s.DefinedUntil) || !s.Shutdown.IsZero() {
			return true
		}
		used := false
		failed = v.EachOf(s.URN, nil, func(am.Sliver) bool { used = true; return false })
		if !used && failed == nil {
			due = append(due, s.URN)
		}
		return failed == nil && len(due) < limit
	})
	return due, errors.Join(failed, err)
}
