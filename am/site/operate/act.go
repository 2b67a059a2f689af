package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Result is the result of an order, slice by slice.
type Result struct {
	// At is the time at which the order was carried out, by the site's clock.
	At     time.Time     `json:"at"`
	Slices []SliceResult `json:"slices"`
	// Displaced are reservations that Renew or Thaw releases, or that Move has not moved. Moved are those that Move has moved.
	Displaced []Reservation `json:"displaced,omitempty"`
	Moved     []Reservation `json:"moved,omitempty"`
	// Warnings are remarks about the order.
	Warnings []string `json:"warnings,omitempty"`
}

// Reservation is a sliver that has not begun.
type Reservation struct {
	Slice     urn.URN   `json:"slice"`
	ClientID  string    `json:"client_id"`
	Component string    `json:"component"`
	Creator   urn.URN   `json:"creator"`
	Begins    time.Time `json:"begins"`
	Ends      time.Time `json:"ends"`
	// Reason tells why Move has not moved it.
	Reason string `json:"reason,omitempty"`
}

func (r Reservation) String() string {
	return fmt.Sprintf("%s/%s on %s from %s until %s, of %s", r.Slice.Name, r.ClientID, r.Component, r.Begins.Format(time.RFC3339), r.Ends.Format(time.RFC3339), r.Creator)
}

func reservationOf(x *am.Sliver) Reservation {
	return Reservation{Slice: x.Slice, ClientID: x.ClientID, Component: cmp.Or(x.ComponentName, x.Component.Name), Creator: x.Creator, Begins: x.Begins, Ends: x.Ends}
}

func reservationsOf(slivers []am.Sliver) (all []Reservation) {
	for i := range slivers {
		all = append(all, reservationOf(&slivers[i]))
	}
	return all
}

// SliceResult is the result of an order for one slice.
type SliceResult struct {
	Slice   urn.URN `json:"slice"`
	Slivers int     `json:"slivers"`
	// Nodes counts the provisioned slivers; only Thaw sets it.
	Nodes int `json:"nodes,omitempty"`
	// Removing counts slivers that their providers still have to remove.
	Removing int `json:"removing,omitempty"`
	// Expires is the earliest end of a lease of the counted slivers; Release omits it.
	Expires time.Time `json:"expires,omitzero"`
	// Shutdown means that the slice was shut down, and remains shut down.
	Shutdown bool `json:"shutdown,omitempty"`
	// ClientIDs are the node names of the counted slivers; Thaw omits them.
	ClientIDs []string `json:"client_ids,omitempty"`
}

// Release is an order to delete slivers, as the method Delete does.
type Release struct {
	// Targets are slices, by URN or name, and slivers, by URN or as SLICE/CLIENT_ID.
	Targets []string `json:"targets"`
	// Frozen also releases slivers that were shut down.
	Frozen bool `json:"frozen,omitempty"`
	// Preview returns what would be released, and releases nothing.
	Preview bool `json:"preview,omitempty"`
	// Text is the reason for the journal; Operator is the name of the operator.
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// Renew is an order to set a new end of leases. It may be earlier than the current end.
type Renew struct {
	Targets []string `json:"targets"`
	End
	// Over releases reservations that could not begin before the new end; without it, they make Renew fail. Preview returns them,
	// and changes nothing.
	Over     bool   `json:"over,omitempty"`
	Preview  bool   `json:"preview,omitempty"`
	Text     string `json:"text,omitempty"`
	Operator string `json:"operator"`
}

// End is the new end of leases: a time, or a number of seconds after the order is carried
// out, by the site's clock. Setting both is refused.
type End struct {
	Until time.Time `json:"until,omitzero"`
	For   int64     `json:"for,omitempty"`
}

// IsZero reports whether the order gives no end.
func (e End) IsZero() bool { return e == End{} }

// at returns the end in whole seconds.
func (e End) at(now time.Time) (time.Time, error) {
	end := e.Until
	if e.For != 0 {
		if !end.IsZero() {
			return end, refuse("the order has both an end and a duration of leases; give one of them")
		}
		end = now.Add(time.Duration(min(max(e.For, 0), int64(maxLease/time.Second)+1)) * time.Second)
	}
	end = end.UTC().Truncate(time.Second)
	switch {
	case !end.After(now):
		return end, refuse("the time %s is in the past; to end leases now, release the slivers", end.Format(time.RFC3339))
	case end.After(now.Add(maxLease)):
		return end, refuse("leases cannot last longer than %d years", maxLease/(365*24*time.Hour))
	}
	return end, nil
}

// Release releases the slivers of an order, all or none. If the order has several slices,
// slices of which only removals remain are skipped. Providers remove the resources
// afterwards; until they confirm, components stay held. With Preview, nothing is changed.
// Release fails with a *RefusedError or an error of the store.
func (d *Operations) Release(ctx context.Context, o Release) (Result, error) {
	done, err := d.act(ctx, o.Targets, o.Operator, o.Text, true, func(v *store.View, cs *store.ChangeSet, t *target, done *Result) error {
		if !t.record.Shutdown.IsZero() && !o.Frozen {
			return refuse("slice %s was shut down at %s by %s, and is kept for inspection; release it with --frozen, or thaw it", t.slice, t.record.Shutdown.Format(time.RFC3339), whoShutDown(t.record.ShutdownBy, t.record.ShutdownOperator))
		}
		row := SliceResult{Slice: t.slice, Slivers: len(t.slivers), Shutdown: !t.record.Shutdown.IsZero(), ClientIDs: clientIDs(t.slivers)}
		for i := range t.slivers {
			t.slivers[i].Frozen = false
			if t.slivers[i].Status.Allocation == am.Provisioned {
				row.Removing++
			}
		}
		done.Slices = append(done.Slices, row)
		t.event, t.preview = am.EventDelete, o.Preview
		return lease.Release(v, cs, t.slivers, am.EventDelete, "")
	})
	if errors.Is(err, errPreview) {
		err = nil
	}
	return done, err
}

// Renew sets the end of leases, all or none. The site's limits for experimenters do not apply; an
// end beyond a limit only causes a warning. A later Provision keeps the end that Renew sets for a
// reservation. Renew also restarts a lease that is over, as long as the sliver exists, because the
// sliver still holds its component. It fails with a *RefusedError or an error of the store.
func (d *Operations) Renew(ctx context.Context, o Renew) (Result, error) {
	done, err := d.act(ctx, o.Targets, o.Operator, o.Text, false, func(v *store.View, cs *store.ChangeSet, t *target, done *Result) error {
		now := v.Now()
		until, err := o.at(now)
		if err != nil {
			return err
		}
		if !t.record.Shutdown.IsZero() {
			return refuse("slice %s was shut down, so its leases do not run; thaw it with --extend", t.slice)
		}
		for i := range t.slivers {
			x := &t.slivers[i]
			if now.Before(x.ProbedUntil) {
				return refuse("the dry run of %s has not ended yet; try again in a moment", describe(x))
			}
			status, err := am.Next(x.Status, am.EventRenew)
			if err != nil {
				return err
			}
			if err := d.displace(v, t, x, until, o.Over); err != nil {
				return err
			}
			d.warn(done, x, until, now)
			x.Status = status
			if err := setEnd(x, until); err != nil {
				return err
			}
			cs.PutSliver(*x)
		}
		done.Displaced = append(done.Displaced, reservationsOf(t.displaced)...)
		t.preview = o.Preview
		t.event, t.text = am.EventRenew, "until "+until.Format(time.RFC3339)
		t.record.Serial++
		cs.PutSlice(t.record)
		done.Slices = append(done.Slices, SliceResult{Slice: t.slice, Slivers: len(t.slivers), Expires: until, ClientIDs: clientIDs(t.slivers)})
		return nil
	})
	if errors.Is(err, errPreview) {
		err = nil
	}
	return done, err
}

// setEnd sets the end of x. A reservation that has not begun keeps its time to wait for Provision.
func setEnd(x *am.Sliver, until time.Time) error {
	if x.Waits() {
		if !until.After(x.Begins) {
			return refuse("%s begins at %s, so it cannot end at %s; release it if it is not needed", describe(x), x.Begins.Format(time.RFC3339), until.Format(time.RFC3339))
		}
		if x.Ends = until; x.AutoProvision || x.Expires.After(until) {
			x.Expires = until
		}
		return nil
	}
	x.Expires, x.RequestedEnd, x.Granted = until, time.Time{}, time.Time{}
	if x.Status.Allocation == am.Allocated {
		x.Granted = until
	}
	if x.Status.Allocation == am.Provisioned || until.After(x.Ends) {
		x.Ends = until
	}
	return nil
}

// displace adds to t the reservations that could not begin if x stayed until the given time, with all slivers that their slices
// have in the same time. It refuses them unless over is true.
func (d *Operations) displace(v *store.View, t *target, x *am.Sliver, until time.Time, over bool) error {
	if !until.After(x.Ends) {
		return nil
	}
	var capacity am.Amount
	if c, ok := d.cfg.Inventory().ComponentOf(x); ok {
		capacity = c.Capacity
	}
	all, err := lease.Displaced(v, x, until, capacity)
	if err != nil {
		return err
	}
	for i := range all {
		linked, err := v.SliversOf(all[i].Slice)
		if err != nil {
			return err
		}
		for _, y := range linked {
			isPart := y.Waits() && y.Begins.Equal(all[i].Begins) && y.Ends.Equal(all[i].Ends) && !y.URN.Equal(x.URN)
			if isPart && !slices.ContainsFunc(t.displaced, func(z am.Sliver) bool { return z.URN.Equal(y.URN) }) {
				t.displaced = append(t.displaced, y)
			}
		}
	}
	if len(all) > 0 && !over {
		return refuse("%s cannot stay until %s beside %s: choose an end before the reservation begins, or release it with --over (%s)", describe(x), until.Format(time.RFC3339), reservationOf(&all[0]), display.Count(len(t.displaced), "sliver"))
	}
	return nil
}

// Move is an order to move reservations that have not begun from components to equal ones.
type Move struct {
	Components []string `json:"components"` // names
	Text       string   `json:"text,omitempty"`
	Operator   string   `json:"operator"`
}

// Move moves reservations whose users did not ask for the component, and which have no links. Result.Displaced lists those that
// stay. It fails with a *RefusedError or an error of the store.
func (d *Operations) Move(ctx context.Context, o Move) (done Result, err error) {
	if err := CheckOperator(o.Operator, o.Text); err != nil {
		return done, err
	}
	err = d.commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		done = Result{At: v.Now().UTC()}
		mover := lease.Mover{Inventory: d.cfg.Inventory(), Plan: d.cfg.Plan()}
		moved, stay, err := mover.MoveAll(v, &cs, o.Components)
		done.Displaced = reservationsOf(stay)
		for i := range stay {
			done.Displaced[i].Reason = lease.WhyStays(&stay[i])
		}
		for i := range moved {
			x := &moved[i]
			done.Moved = append(done.Moved, reservationOf(x))
			cs.Log(am.JournalEntry{At: v.Now().UTC(), Event: lease.EventMove, Operator: o.Operator, Slice: x.Slice, Slivers: []urn.URN{x.URN}, Text: journalText("to "+x.ComponentName, o.Text)})
		}
		return cs, err
	})
	return done, err
}

func clientIDs(slivers []am.Sliver) (names []string) {
	for i := range slivers {
		names = append(names, slivers[i].ClientID)
	}
	return names
}

// maxLease limits the leases that an operator may set; a longer one is probably a
// mistake.
const maxLease = 100 * 365 * 24 * time.Hour

// maxWarnings limits the warnings of a result; further warnings are dropped.
const maxWarnings = 20

// warn adds a warning if the new end exceeds the limit for experimenters, and another if a
// maintenance of the component begins before the end.
func (d *Operations) warn(result *Result, x *am.Sliver, end, now time.Time) {
	note := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if len(result.Warnings) < maxWarnings && !slices.Contains(result.Warnings, text) {
			result.Warnings = append(result.Warnings, text)
		}
	}
	longest, key := d.cfg.ProvisionedMax, "leases.provisioned_max"
	if x.Status.Allocation == am.Allocated {
		longest, key = d.cfg.AllocatedMax, "leases.allocated_max"
	}
	if longest > 0 && !x.Waits() && end.After(now.Add(longest)) {
		note("experimenters of slice %s could renew until %s at most (%s)", x.Slice.Name, now.Add(longest).UTC().Format(time.RFC3339), key)
	}
	name := x.Component.Name
	if c, ok := d.cfg.Inventory().ComponentOf(x); ok {
		name = c.Name
	}
	if w := d.cfg.Plan().NextWindow(name, now); w != nil && end.After(w.From) {
		note("maintenance of %s begins at %s: %s", name, w.From.Format(time.RFC3339), w.Text)
	}
}
