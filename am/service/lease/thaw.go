package lease

import (
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Thaw adds to cs the changes that end the shutdown of a slice, and returns the slivers. The
// slivers stay switched off until their users start them. Their leases apply again. If a lease
// ends before minEnd, Thaw extends it to minEnd. The runner's next check releases slivers
// whose lease is over. Thaw returns store.ErrNotFound for an unknown slice, and an *am.Error
// for a slice that is not shut down.
func Thaw(v *store.View, cs *store.ChangeSet, slice urn.URN, minEnd time.Time) ([]am.Sliver, error) {
	rec, _, err := v.Slice(slice)
	if err != nil {
		return nil, err
	}
	if rec.Shutdown.IsZero() {
		return nil, am.Errorf(am.Refused, "slice %s is not shut down", slice).About(slice)
	}
	slivers, err := v.SliversOf(slice)
	if err != nil {
		return nil, err
	}
	rec.Serial++
	rec.Shutdown, rec.ShutdownBy, rec.ShutdownOperator = time.Time{}, urn.URN{}, ""
	cs.PutSlice(rec)
	for i := range slivers {
		x := &slivers[i]
		x.Frozen = false
		if x.Status.Allocation != am.Unallocated && x.Expires.Before(minEnd) {
			x.Expires = minEnd.UTC().Truncate(time.Second)
			if x.Ends = am.LaterOf(x.Ends, x.Expires); x.Status.Allocation == am.Allocated {
				x.Granted = x.Expires
			}
		}
		cs.PutSliver(*x)
	}
	if len(slivers)+len(rec.Definitions) == 0 { // a slice exists while it has one of them or is shut down
		cs.Drop(store.SliceKey(slice))
	}
	return slivers, nil
}
