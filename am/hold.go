package am

import (
	"crypto/sha256"
	"net/netip"
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
	// the sliver's record is deleted, see Overlaps.
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
func ProjectHash(slice urn.URN) Hash { return hashText(urn.Lower(slice.Authority)) }

func hashText(s string) Hash {
	sum := sha256.Sum256([]byte(s))
	return Hash(sum[:len(Hash{})])
}

// HoldOf returns what a sliver holds.
func HoldOf(s *Sliver) Hold {
	h := Hold{
		Sliver: []byte(s.URN.Key()), Until: laterOf(s.Expires, s.Ends),
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

func laterOf(a, b time.Time) time.Time {
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

// EachStart calls f with the holds in list at the time from, and at the start of each hold that
// begins later. Between these times, holds only end. So what f counts is most at one of them.
func EachStart(list []Hold, from, now time.Time, f func(held []*Hold)) {
	starts := []time.Time{from}
	for i := range list {
		if list[i].From.After(from) {
			starts = append(starts, list[i].From)
		}
	}
	for _, at := range starts {
		var held []*Hold
		for i := range list {
			if h := &list[i]; h.Overlaps(at, at.Add(1), now) {
				held = append(held, h)
			}
		}
		f(held)
	}
}
