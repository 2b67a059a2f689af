package am

import (
	"cmp"
	"crypto/sha256"
	"math"
	"net/netip"
	"slices"
	"time"

	"patchbay/am/urn"
)

// Hold is what one sliver holds, and from when to when: the entry of the sliver in the store's
// calendar. URNs are given by their keys. Names are bytes because a decision reads all entries, and
// most names only as a key of a map.
type Hold struct {
	Sliver []byte
	// The hold begins at From. A zero From means that it has begun, whatever the clock shows: the
	// clock may have been set back. The hold ends at Until, which is later than the present lease of a
	// reservation that is not provisioned yet; a zero Until means that no end is known. A hold that is over lasts until
	// the sliver's record is deleted, see End.
	From, Until time.Time

	// Component, ComponentName and Provider are those of the sliver.
	Component, ComponentName, Provider []byte
	Amount                             Amount
	Exclusive                          bool // no other slice may hold a part of the component
	Cleaning                           bool // released; the component is being cleaned
	Slice, User, Project               Hash

	Interfaces    []InterfaceHold // those with a physical interface or a VLAN
	PublicAddress netip.Addr      // zero for none
}

// InterfaceHold is what one interface of a sliver holds. Its fields are those of Interface.
type InterfaceHold struct {
	Component, ComponentName []byte
	Out, In                  int64
	VLAN                     int
	Shared                   bool // the VLAN is shared with other slices
}

// Hash identifies a slice, a user or a project.
type Hash [16]byte

// HashOf returns the hash of a URN.
func HashOf(u urn.URN) Hash { return hashText(u.Key()) }

// ProjectHash returns the hash of the project of a slice.
func ProjectHash(slice urn.URN) Hash { return hashText(urn.Lower(ProjectOf(slice))) }

func hashText(s string) Hash {
	sum := sha256.Sum256([]byte(s))
	return Hash(sum[:len(Hash{})])
}

// HoldOf returns what a sliver holds.
func HoldOf(s *Sliver) Hold {
	h := Hold{
		Sliver: []byte(s.URN.Key()), Until: LaterOf(s.Expires, s.Ends),
		Component: []byte(s.Component.Key()), ComponentName: []byte(s.ComponentName), Provider: []byte(s.Provider),
		Amount: s.Amount, Exclusive: s.Exclusive, Cleaning: s.Status.Allocation == Unallocated,
		Slice: HashOf(s.Slice), User: HashOf(s.Creator), Project: ProjectHash(s.Slice),
		PublicAddress: s.PublicAddress,
	}
	if h.Cleaning || s.Frozen {
		h.Until = time.Time{}
	}
	if s.Waits() {
		h.From = s.Begins
	}
	for _, i := range s.Interfaces {
		if !i.Component.IsZero() || i.VLAN != 0 {
			h.Interfaces = append(h.Interfaces, InterfaceHold{[]byte(i.Component.Key()), []byte(i.ComponentName), i.Out, i.In, i.VLAN, i.SharedVLAN != ""})
		}
	}
	return h
}

// LaterOf returns the later of two times.
func LaterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// CleaningTime is how long a component is expected to stay held after the end of a lease, at most: while it is
// cleaned, reservations cannot begin within this time.
const CleaningTime = time.Hour

// Overlaps reports whether h holds something at any time from the time from up to until, without until itself. A zero
// until means that the interval has no end. now is the present.
func (h *Hold) Overlaps(from, until, now time.Time) bool {
	if !until.IsZero() && !h.From.Before(until) {
		return false
	}
	end := h.End(now)
	return end.IsZero() || end.After(from)
}

// End returns the time at which the hold is expected to end, zero if no end is known. now is the present.
func (h *Hold) End(now time.Time) time.Time {
	if h.Cleaning || !h.Until.IsZero() && !h.Until.After(now) {
		return now.Add(CleaningTime)
	}
	return h.Until
}

// Sweep goes through the holds in list, in the order of time. At each instant it calls leave with the holds that end then,
// enter with those that begin then, and at with the instant, until at returns false. The instants are the time from, at
// which enter gets what is held already, and the later ones at which a hold begins or ends. now is the present.
func Sweep(list []Hold, from, now time.Time, enter, leave func(*Hold), at func(time.Time) bool) {
	starts, ends := make([]instant, 0, len(list)), make([]instant, 0, len(list))
	for i := range list {
		h := &list[i]
		switch end := h.End(now); {
		case end.IsZero():
			starts = append(starts, instantOf(h.From, h))
		case end.After(from) && end.After(h.From):
			starts, ends = append(starts, instantOf(h.From, h)), append(ends, instantOf(end, h))
		}
	}
	byTime := func(a, b instant) int { return cmp.Compare(a.nanoseconds, b.nanoseconds) }
	slices.SortFunc(starts, byTime)
	slices.SortFunc(ends, byTime)
	for t := from; ; {
		for ; len(ends) > 0 && !ends[0].hold.End(now).After(t); ends = ends[1:] {
			leave(ends[0].hold)
		}
		for ; len(starts) > 0 && !starts[0].hold.From.After(t); starts = starts[1:] {
			enter(starts[0].hold)
		}
		if !at(t) || len(starts)+len(ends) == 0 {
			return
		}
		if len(ends) > 0 {
			t = ends[0].hold.End(now)
		}
		if len(starts) > 0 && (len(ends) == 0 || starts[0].hold.From.Before(t)) {
			t = starts[0].hold.From
		}
	}
}

// instant is the start or the end of a hold. It is compared as a number, which is quicker.
type instant struct {
	nanoseconds int64 // since 1970
	hold        *Hold
}

func instantOf(t time.Time, h *Hold) instant {
	switch {
	case t.Year() < 1970:
		return instant{math.MinInt64, h}
	case t.Year() > 2261:
		return instant{math.MaxInt64, h}
	}
	return instant{t.UnixNano(), h}
}
