package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Thaw is an order to lift the shutdown of a slice.
type Thaw struct {
	Slice string `json:"slice"`
	// Extend is the new end of leases that end earlier; zero changes none.
	Extend End `json:"extend,omitzero"`
	// ReleaseExpired releases slivers whose leases are over and not extended.
	ReleaseExpired bool `json:"release_expired,omitempty"`
	// Over and Preview are as in Renew, for Extend.
	Over     bool   `json:"over,omitempty"`
	Preview  bool   `json:"preview,omitempty"`
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// Shutdown is an order to shut a slice down, as the method Shutdown does.
type Shutdown struct {
	Slice    string `json:"slice"`
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// Shutdown shuts a slice down: its nodes are switched off and kept, its users cannot use them, and no
// lease ends before Thaw. It fails with a *RefusedError or an error of the store.
func (d *Operations) Shutdown(ctx context.Context, o Shutdown) (Result, error) {
	return d.act(ctx, []string{o.Slice}, o.Operator, o.Text, false, func(v *store.View, cs *store.ChangeSet, t *target, done *Result) error {
		all, err := v.SliversOf(t.slice)
		live := slices.DeleteFunc(all, func(x am.Sliver) bool { return !x.Live(v.Now()) })
		kept := slices.DeleteFunc(slices.Clone(live), func(x am.Sliver) bool { return x.Waits() })
		switch {
		case err != nil:
			return err
		case !t.isWhole:
			return refuse("%s names slivers; only a whole slice can be shut down", o.Slice)
		case !t.record.Shutdown.IsZero():
			return refuse("slice %s was shut down at %s by %s already", t.slice, t.record.Shutdown.Format(time.RFC3339), whoShutDown(t.record.ShutdownBy, t.record.ShutdownOperator))
		case len(live) == 0:
			return refuse("slice %s has no slivers", t.slice)
		}
		t.event, t.slivers = am.EventShutdown, live
		t.record.ShutdownOperator = o.Operator
		done.Slices = append(done.Slices, SliceResult{Slice: t.slice, Slivers: len(kept), Shutdown: true, ClientIDs: clientIDs(kept)})
		t.text, err = lease.Shutdown(v, cs, t.record, live, "")
		if t.text != "" {
			done.Warnings = append(done.Warnings, "this "+t.text)
		}
		return err
	})
}

// Thaw lifts the shutdown of a slice. The nodes are switched off, but users can start them,
// and the leases run again. A node whose lease is over would be released at once. So Thaw
// refuses the order in this case, unless the order extends the lease or sets ReleaseExpired.
// It fails with a *RefusedError or an error of the store.
func (d *Operations) Thaw(ctx context.Context, o Thaw) (done Result, err error) {
	if err := CheckOperator(o.Operator, o.Text); err != nil {
		return done, err
	}
	slice, err := d.findThawable(o.Slice)
	if err != nil {
		return done, err
	}
	err = d.commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		done = Result{At: v.Now().UTC()}
		var extend time.Time
		if !o.Extend.IsZero() {
			if extend, err = o.Extend.at(v.Now()); err != nil {
				return cs, err
			}
		}
		t := &target{}
		if err := d.displaceExtended(v, t, slice, extend, o.Over); err != nil {
			return cs, err
		}
		slivers, err := lease.Thaw(v, &cs, slice, extend)
		if errors.Is(err, store.ErrNotFound) {
			return cs, refuse("there is no slice %s here", slice)
		}
		if err != nil {
			return store.ChangeSet{}, err
		}
		if !o.ReleaseExpired {
			if err := requireLive(slice, slivers, v.Now()); err != nil {
				return store.ChangeSet{}, err
			}
		}
		row, text := SliceResult{Slice: slice}, ""
		if !extend.IsZero() {
			text = "no lease ends before " + extend.Format(time.RFC3339)
		}
		e := am.JournalEntry{At: v.Now().UTC(), Event: EventThaw, Operator: o.Operator, Slice: slice, Text: journalText(text, o.Text)}
		for i := range slivers {
			x := &slivers[i]
			e.Slivers = append(e.Slivers, x.URN)
			if x.Status.Allocation == am.Unallocated {
				row.Removing++
				continue
			}
			row.Slivers++
			if x.Status.Allocation == am.Provisioned {
				row.Nodes++
			}
			if row.Expires.IsZero() || x.Expires.Before(row.Expires) {
				row.Expires = x.Expires
			}
			if !extend.IsZero() {
				d.warn(&done, x, extend, v.Now())
			}
		}
		done.Slices, done.Displaced = []SliceResult{row}, reservationsOf(t.displaced)
		cs.Log(e)
		if o.Preview {
			return store.ChangeSet{}, errPreview
		}
		return cs, releaseDisplaced(v, &cs, t.displaced, o.Operator, o.Text)
	})
	if errors.Is(err, errPreview) {
		err = nil
	}
	return done, err
}

// displaceExtended is displace for the slivers of a slice whose leases Thaw extends.
func (d *Operations) displaceExtended(v *store.View, t *target, slice urn.URN, extend time.Time, over bool) error {
	slivers, err := v.SliversOf(slice)
	for i := range slivers {
		if x := &slivers[i]; err == nil && x.Status.Allocation != am.Unallocated && x.Expires.Before(extend) {
			err = d.displace(v, t, x, extend, over)
		}
	}
	return err
}

// requireLive fails if the lease of a sliver is over, so that a thaw would release its node
// at once.
func requireLive(slice urn.URN, slivers []am.Sliver, now time.Time) error {
	over, first := 0, time.Time{}
	for i := range slivers {
		x := &slivers[i]
		if x.Status.Allocation == am.Unallocated || x.Live(now) {
			continue
		}
		if over++; first.IsZero() || x.Expires.Before(first) {
			first = x.Expires
		}
	}
	if over == 0 {
		return nil
	}
	return refuse("in slice %s %d of %d leases are over, the first since %s, so these nodes and their data would be released at once; extend their leases with --extend TIME, or release them with --yes", slice, over, len(slivers), first.UTC().Format(time.RFC3339))
}

// EventThaw is the journal's event for a lifted shutdown.
const EventThaw = "thaw"

// findThawable returns the slice that was shut down and has the URN or name arg. The name may
// belong to several slices if exactly one of them was shut down. For an unknown name, the error
// suggests a similar name of a slice that was shut down.
func (d *Operations) findThawable(arg string) (slice urn.URN, err error) {
	err = d.cfg.Store.Read(func(v *store.View) error {
		var down []urn.URN
		found, err := findSlice(v, arg)
		if e, ok := errors.AsType[*RefusedError](err); ok {
			var names []string
			failed := v.Slices(func(s am.Slice) bool {
				if !s.Shutdown.IsZero() && len(names) < maxNames {
					names = append(names, s.URN.Name)
				}
				return true
			})
			if near := didYouMean(arg, names); near != "" {
				return cmp.Or(failed, refuse("there is no slice %s here%s", arg, near))
			}
			return cmp.Or[error](failed, e)
		}
		for _, u := range found {
			s, _, failed := v.Slice(u)
			err = cmp.Or(err, failed)
			if !s.Shutdown.IsZero() {
				down = append(down, u)
			}
		}
		switch {
		case err != nil:
		case len(down) == 0:
			err = refuse("slice %s is not shut down", found[0])
		case len(down) > 1:
			err = ambiguous(arg, down)
		default:
			slice = down[0]
		}
		return err
	})
	return slice, err
}

func ambiguous(arg string, found []urn.URN) error {
	names := make([]string, 0, len(found))
	for _, u := range found[:min(len(found), 10)] {
		names = append(names, u.String())
	}
	return refuse("%d slices have the name %s: %s; name one by its URN", len(found), arg, strings.Join(names, ", "))
}
