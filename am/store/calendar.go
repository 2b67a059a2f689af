package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"patchbay/am"
)

// An entry of the calendar has the key: component, 0, start, sliver. Its value is a checksum of
// four bytes, which covers the key too, and the fields of am.Hold in the order of appendHold. An
// entry is not JSON, because a decision reads all entries and JSON takes too long.

func calendarKey(h *am.Hold) []byte {
	k := append(append(make([]byte, 0, len(h.Component)+9+len(h.Sliver)), h.Component...), 0)
	return append(binary.BigEndian.AppendUint64(k, nanoseconds(h.From)), h.Sliver...)
}

func calendarValue(key []byte, h *am.Hold) []byte {
	v := appendHold(make([]byte, sumSize, 256), h)
	binary.BigEndian.PutUint32(v, calendarSum(key, v))
	return v
}

func calendarSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, crcTable), crcTable, value[sumSize:])
}

// Flags of an entry.
const (
	exclusiveHold = 1 << iota
	cleaningHold
)

// appendHold appends the fields of h that are not in the key.
func appendHold(b []byte, h *am.Hold) []byte {
	text := func(s []byte) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	flags := byte(0)
	if h.Exclusive {
		flags |= exclusiveHold
	}
	if h.Cleaning {
		flags |= cleaningHold
	}
	b = append(binary.BigEndian.AppendUint64(b, nanoseconds(h.Until)), flags)
	b = append(append(append(b, h.Slice[:]...), h.User[:]...), h.Project[:]...)
	for _, n := range [...]int64{h.Amount.Slots, h.Amount.Cores, h.Amount.GPUs, h.Amount.Memory, h.Amount.Disk} {
		number(n)
	}
	text(h.ComponentName)
	text(h.Provider)
	address, _ := h.PublicAddress.MarshalBinary() // it never fails
	text(address)
	number(int64(len(h.Interfaces)))
	for _, i := range h.Interfaces {
		text(i.Component)
		text(i.ComponentName)
		shared := int64(0)
		if i.Shared {
			shared = 1
		}
		for _, n := range [...]int64{i.Out, i.In, int64(i.VLAN), shared} {
			number(n)
		}
	}
	return b
}

// nanoseconds returns 0 for the zero time and for times before 1970, and the largest int64 for
// times after 2261.
func nanoseconds(t time.Time) uint64 {
	switch {
	case t.Year() < 1970:
		return 0
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return uint64(t.UnixNano())
}

// timeOf is the inverse of nanoseconds. It returns the zero time for 0.
func timeOf(nanoseconds uint64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nanoseconds)).UTC()
}

// holdReader reads fields from the rest of an entry. After a failure all results are zero.
type holdReader struct {
	rest   []byte
	failed bool
}

func (r *holdReader) bytes(n uint64) []byte {
	if r.failed = r.failed || n > uint64(len(r.rest)); r.failed {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *holdReader) number() int64 {
	n, size := binary.Varint(r.rest)
	if r.failed = r.failed || size <= 0; r.failed {
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *holdReader) text() []byte {
	n, size := binary.Uvarint(r.rest)
	if r.failed = r.failed || size <= 0; r.failed {
		return nil
	}
	r.rest = r.rest[size:]
	return r.bytes(n)
}

func (r *holdReader) time() time.Time {
	b := r.bytes(8)
	if b == nil {
		return time.Time{}
	}
	return timeOf(binary.BigEndian.Uint64(b))
}

var errDamagedEntry = brokenError{errors.New("an entry of the calendar is damaged; stop the server, and restore a backup")}

// readHold sets h from an entry. The names in h share the entry's memory. h.Interfaces reuses the
// memory of the list that h has before the call.
func readHold(key, value []byte, h *am.Hold) error {
	n := bytes.IndexByte(key, 0)
	if n < 0 || len(key) < n+9 || len(value) < sumSize || binary.BigEndian.Uint32(value) != calendarSum(key, value) {
		return errDamagedEntry
	}
	*h = am.Hold{Component: key[:n], From: timeOf(binary.BigEndian.Uint64(key[n+1:])), Sliver: key[n+9:], Interfaces: h.Interfaces[:0]}
	r := holdReader{rest: value[sumSize:]}
	h.Until = r.time()
	if b := r.bytes(1); b != nil {
		h.Exclusive, h.Cleaning = b[0]&exclusiveHold != 0, b[0]&cleaningHold != 0
	}
	for _, to := range []*am.Hash{&h.Slice, &h.User, &h.Project} {
		copy(to[:], r.bytes(uint64(len(to))))
	}
	for _, to := range []*int64{&h.Amount.Slots, &h.Amount.Cores, &h.Amount.GPUs, &h.Amount.Memory, &h.Amount.Disk} {
		*to = r.number()
	}
	h.ComponentName, h.Provider = r.text(), r.text()
	if address := r.text(); len(address) > 0 && h.PublicAddress.UnmarshalBinary(address) != nil {
		r.failed = true
	}
	for range r.number() {
		i := am.InterfaceHold{Component: r.text(), ComponentName: r.text(), Out: r.number(), In: r.number(), VLAN: int(r.number()), Shared: r.number() != 0}
		if r.failed {
			break
		}
		h.Interfaces = append(h.Interfaces, i)
	}
	if r.failed || len(r.rest) > 0 {
		return errDamagedEntry
	}
	return nil
}

// Calendar calls f with what each sliver holds, ordered by component and start, until f returns
// false. f must not keep the Hold, its names or its list, because their memory is used again.
func (v *View) Calendar(f func(*am.Hold) bool) error {
	return v.CalendarOf(time.Time{}, func(*am.Hold) bool { return true }, f)
}

// CalendarUntil returns Calendar without the entries that begin at the time until or later. They are not decoded.
func (v *View) CalendarUntil(until time.Time) func(func(*am.Hold) bool) error {
	return func(f func(*am.Hold) bool) error {
		return v.CalendarOf(until, func(*am.Hold) bool { return true }, f)
	}
}

func (v *View) scanCalendar(until time.Time, f func(*am.Hold) bool) (err error) {
	var h am.Hold
	v.r.scanStarts(nanoseconds(until), func(k, b []byte) bool {
		if err = readHold(k, b, &h); err != nil {
			err = fmt.Errorf("%s %q: %w", calendarBucket, readable(calendarBucket, k), err)
		}
		return err == nil && f(&h)
	})
	return err
}

// maxSkipped is the number of entries that scanStarts skips one by one before it searches the next component. A search
// takes about as long as so many entries.
const maxSkipped = 8

// scanStarts calls f for each entry of the calendar with a start before until, in order, until f returns false. An
// until of 0 is no limit.
func (r reader) scanStarts(until uint64, f func(k, v []byte) bool) {
	skipped := 0
	for c, k, v := r.seek(calendarBucket, nil, nil); k != nil; {
		n := bytes.IndexByte(k, 0)
		isLater := until > 0 && n >= 0 && len(k) >= n+9 && binary.BigEndian.Uint64(k[n+1:]) >= until
		switch {
		case !isLater && !f(k, v):
			return
		case !isLater:
			skipped = 0
		case skipped == maxSkipped:
			skipped = 0
			k, v = seekFrom(c, append(bytes.Clone(k[:n]), 1))
			continue
		default:
			skipped++
		}
		k, v = next(c)
	}
}

// CalendarAt calls f with what each sliver holds on a component, ordered by start, until f returns false. The decision
// depends on all entries of the component. f must keep nothing of the Hold, as in Calendar.
func (v *View) CalendarAt(component []byte, f func(*am.Hold) bool) (err error) {
	if r := v.r.reads; r != nil {
		key := bytes.Clone(component)
		r.holds = append(r.holds, func(h *am.Hold) bool { return bytes.Equal(h.Component, key) })
	}
	var h am.Hold
	v.r.scan(calendarBucket, append(bytes.Clone(component), 0), nil, func(k, b []byte) bool {
		if err = readHold(k, b, &h); err != nil {
			err = fmt.Errorf("%s %q: %w", calendarBucket, readable(calendarBucket, k), err)
		}
		return err == nil && f(&h)
	})
	return err
}

// calendarOps returns the operations that replace the entry of the sliver old by that of s. Either
// may be nil for none. It returns none if the entry stays the same.
func calendarOps(r reader, old, s *am.Sliver) (ops []op) {
	var key, value []byte
	if s != nil {
		h := am.HoldOf(s)
		key = calendarKey(&h)
		value = calendarValue(key, &h)
	}
	if old != nil {
		h := am.HoldOf(old)
		if was := calendarKey(&h); !bytes.Equal(was, key) {
			ops = append(ops, op{calendarBucket, was, nil})
		}
	}
	// The comparison is with the stored entry, because old shares its lists with the record that
	// the decision has read and may have changed.
	if s != nil && !bytes.Equal(r.get(calendarBucket, key), value) {
		ops = append(ops, op{calendarBucket, key, value})
	}
	return ops
}

// fillCalendar returns the operations that write the entries of all slivers.
func fillCalendar(v *View) (ops []op, err error) {
	err = v.Slivers(func(s am.Sliver) bool { ops = append(ops, calendarOps(v.r, nil, &s)...); return true })
	if err != nil {
		err = fmt.Errorf("cannot write the calendar: %w", err)
	}
	return ops, err
}
