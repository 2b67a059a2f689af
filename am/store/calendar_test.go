package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/urn"
)

// drawSliver draws a sliver with this name.
func drawSliver(rt *rapid.T, name string) am.Sliver {
	number := func(what string) int64 { return rapid.Int64Range(0, 1<<40).Draw(rt, what) }
	yes := func(what string) bool { return rapid.Bool().Draw(rt, what) }
	x := sliver(name, rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "slice"), rapid.IntRange(-3, 3).Draw(rt, "minutes"))
	x.Component, x.ComponentName, x.Provider = componentURN(rapid.SampledFrom([]string{"pc1", "pc2"}).Draw(rt, "component")), "PC", "metal"
	x.Creator = urn.URN{Authority: "example.org", Type: urn.User, Name: rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "user")}
	x.Created = noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "created")) * time.Nanosecond)
	x.Exclusive, x.Frozen = yes("exclusive"), yes("frozen")
	x.Amount = am.Amount{Slots: number("slots"), Cores: number("cores"), GPUs: number("gpus"), Memory: number("memory"), Disk: number("disk")}
	if yes("released") {
		x.Status.Allocation = am.Unallocated
	}
	if yes("public address") {
		x.PublicAddress = rapid.SampledFrom([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}).Draw(rt, "address")
	}
	for range rapid.IntRange(0, 3).Draw(rt, "interfaces") {
		i := am.Interface{ClientID: "if", VLAN: rapid.IntRange(0, 2).Draw(rt, "vlan"), Out: number("out"), In: number("in")}
		if yes("port") {
			i.Component, i.ComponentName = componentURN("pc1:eth1"), "eth1"
		}
		if yes("shared") {
			i.SharedVLAN = "lan"
		}
		x.Interfaces = append(x.Interfaces, i)
	}
	return x
}

// TestCalendarHoldsWhatSliversHold draws change sets. Some put a sliver twice, or delete and put it.
func TestCalendarHoldsWhatSliversHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := scratch(t)
		defer os.RemoveAll(dir)
		s, err := Open(filepath.Join(dir, "store.db"), Options{Now: at})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 8).Draw(rt, "change sets") {
			err := s.Commit(t.Context(), func(v *View) (cs ChangeSet, err error) {
				for range rapid.IntRange(0, 2).Draw(rt, "deletes") {
					cs.Remove(SliverKey(sliverURN(name.Draw(rt, "name"))))
				}
				for range rapid.IntRange(0, 4).Draw(rt, "puts") {
					cs.PutSliver(drawSliver(rt, name.Draw(rt, "name")))
				}
				// A decision may change the lists of the record that it has read.
				if x, _, err := v.Sliver(sliverURN(name.Draw(rt, "name"))); err == nil && len(x.Interfaces) > 0 {
					x.Interfaces[0].VLAN++
					cs.PutSliver(x)
				}
				return cs, nil
			})
			if err == nil {
				err = inconsistency(s)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestCalendarOps(t *testing.T) {
	s := open(t, Options{})
	x := sliver("a", "s", 1)
	commit(t, s, put(x))
	for _, c := range []struct {
		rule   string
		change func(*am.Sliver)
		want   int
	}{
		{"a changed status writes no entry", func(s *am.Sliver) {
			s.Status, s.Error, s.Generation = am.Status{Allocation: am.Provisioned, Operational: am.Ready}, "e", 7
		}, 0},
		{"a renewed lease writes one entry", func(s *am.Sliver) { s.Expires = s.Expires.Add(1) }, 1},
		{"another component deletes the old entry and writes one", func(s *am.Sliver) { s.Component = componentURN("other") }, 2},
	} {
		y := x
		c.change(&y)
		err := s.Read(func(v *View) error {
			if ops := calendarOps(v.r, &x, &y); len(ops) != c.want {
				t.Errorf("%s: %d operations", c.rule, len(ops))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCalendarUntil compares CalendarUntil with the entries of the whole calendar that begin before the time.
func TestCalendarUntil(t *testing.T) {
	s, serial := open(t, Options{}), 0
	rapid.Check(t, func(rt *rapid.T) {
		commit(t, s, func(v *View) (cs ChangeSet, err error) {
			for _, c := range []string{"pc1", "pc10", "pc2", "pc3"} {
				for range rapid.IntRange(0, 4).Draw(rt, "slivers") * rapid.IntRange(0, 8).Draw(rt, "times") {
					serial++
					x := sliver(fmt.Sprint(serial), "s", 10_000)
					x.Component, x.Begins = componentURN(c), noon.Add(time.Duration(rapid.IntRange(0, 9).Draw(rt, "start"))*time.Hour)
					x.Begun, x.Ends = x.Begins.Equal(noon), x.Expires
					cs.PutSliver(x)
				}
			}
			err = v.Slivers(func(x am.Sliver) bool { cs.Remove(SliverKey(x.URN)); return true })
			return cs, err
		})
		until := noon.Add(time.Duration(rapid.IntRange(0, 10).Draw(rt, "until")) * time.Hour)
		var got, want []string
		err := s.Read(func(v *View) error {
			err := v.CalendarUntil(until)(func(h *am.Hold) bool { got = append(got, string(h.Sliver)); return true })
			return errors.Join(err, v.Calendar(func(h *am.Hold) bool {
				if h.From.Before(until) {
					want = append(want, string(h.Sliver))
				}
				return true
			}))
		})
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("before %s: %v, %d entries, want %d", until, err, len(got), len(want))
		}
	})
}

// fullHold has a value other than zero in each field.
func fullHold() am.Hold {
	return am.Hold{
		Sliver: []byte("sliver"), From: noon, Until: noon.Add(time.Hour), Component: []byte("component"), ComponentName: []byte("pc1"), Provider: []byte("metal"),
		Amount: am.Amount{Slots: 1, Cores: 2, GPUs: 3, Memory: 4, Disk: 5}, Exclusive: true, Cleaning: true,
		Slice: am.Hash{1}, User: am.Hash{2}, Project: am.Hash{3}, PublicAddress: netip.MustParseAddr("192.0.2.1"),
		Interfaces: []am.InterfaceHold{{Component: []byte("if"), ComponentName: []byte("eth1"), Out: 1, In: 2, VLAN: 3, Shared: true}},
	}
}

func TestHoldKeepsEachField(t *testing.T) {
	full := fullHold()
	for _, x := range []any{full, full.Interfaces[0], full.Amount} {
		for i, v := 0, reflect.ValueOf(x); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("the field %s.%s has no value in this test", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	shared := fullHold()
	shared.Interfaces[0].VLAN = 0
	endless := fullHold()
	endless.Until, endless.PublicAddress, endless.Interfaces = time.Time{}, netip.MustParseAddr("2001:db8::1"), nil
	got := fullHold() // the memory of its list is used again
	for _, want := range []am.Hold{full, shared, endless, {}} {
		key := calendarKey(&want)
		if err := readHold(key, calendarValue(key, &want), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameHolds); diff != "" {
			t.Errorf("-written +read\n%s", diff)
		}
	}
}

func TestTimesOfHolds(t *testing.T) {
	last := time.Unix(0, 1<<63-1)
	for _, c := range []struct {
		rule     string
		at, want time.Time
	}{
		{"now", noon.Add(1), noon.Add(1)},
		{"zero", time.Time{}, time.Time{}},
		{"before 1970", time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
		{"the largest number", last, last},
		{"after 2261", noon.AddDate(400, 0, 0), last},
	} {
		if got := timeOf(nanoseconds(c.at)); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.rule, got, c.want)
		}
	}
}

// TestDamagedEntries flips each byte of an entry, and cuts the entry.
func TestDamagedEntries(t *testing.T) {
	h := fullHold()
	key := calendarKey(&h)
	entry := append(key[:len(key):len(key)], calendarValue(key, &h)...)
	damaged := func(what string, key, value []byte) {
		t.Helper()
		var got am.Hold
		if err := readHold(key, value, &got); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range entry {
		b := append([]byte(nil), entry...)
		b[i] ^= 1 << (i % 8)
		damaged(fmt.Sprint("byte ", i, " flipped"), b[:len(key)], b[len(key):])
	}
	for n := range entry {
		k, v := entry[:min(n, len(key))], entry[len(key):max(n, len(key))]
		damaged(fmt.Sprint("cut to ", n, " bytes"), k, v)
	}
}

// TestDamagedEntryEndsReading damages an entry in a store: readers get an error that names it, and
// the store accepts no more changes.
func TestDamagedEntryEndsReading(t *testing.T) {
	s := open(t, Options{})
	x := sliver("a", "s", 1)
	commit(t, s, func(*View) (cs ChangeSet, err error) {
		cs.PutSlice(am.Slice{URN: x.Slice})
		cs.PutSliver(x)
		return cs, nil
	})
	h := am.HoldOf(&x)
	key := calendarKey(&h)
	value := calendarValue(key, &h)
	value[len(value)-1] ^= 1
	if err := s.db.update(func(r reader) error { return r.apply(op{calendarBucket, key, value}) }); err != nil {
		t.Fatal(err)
	}
	r, err := s.Check()
	if want := (Problem{calendarBucket, readable(calendarBucket, key), "it differs from what its sliver holds"}); err != nil || !cmp.Equal(r.Problems, []Problem{want}) {
		t.Errorf("Check found %v, %v; want %v", r.Problems, err, want)
	}
	err = s.Read(func(v *View) error { return v.Calendar(func(*am.Hold) bool { return true }) })
	if !errors.Is(err, ErrBroken) || !errors.Is(s.Err(), ErrBroken) {
		t.Errorf("a read: %v; the store: %v", err, s.Err())
	}
}

// FuzzHold reads fields that have a matching checksum. What it can read, it can write and read again.
func FuzzHold(f *testing.F) {
	full := fullHold()
	f.Add(calendarKey(&full), appendHold(nil, &full))
	f.Add([]byte("c\x00\x00\x00\x00\x00\x00\x00\x00\x01s"), []byte{})
	f.Fuzz(func(t *testing.T, key, fields []byte) {
		entry := func(key, fields []byte) []byte {
			v := append(make([]byte, sumSize), fields...)
			sum := calendarSum(key, v)
			return append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, fields...)
		}
		var h, again am.Hold
		if err := readHold(key, entry(key, fields), &h); err != nil {
			if !errors.Is(err, ErrBroken) {
				t.Fatal(err)
			}
			return
		}
		k := calendarKey(&h)
		v := calendarValue(k, &h)
		if err := readHold(k, v, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, again, sameHolds); diff != "" {
			t.Fatalf("-read first +read again\n%s", diff)
		}
		if kk := calendarKey(&again); string(kk) != string(k) || string(calendarValue(kk, &again)) != string(v) {
			t.Fatalf("%+v is written in two ways", h)
		}
	})
}

func BenchmarkCalendar(b *testing.B) {
	s := open(b, Options{})
	const entries = 10_000
	var cs ChangeSet
	for i := range entries {
		x := sliver(fmt.Sprint("sliver-", i), fmt.Sprint("s", i%100), rand.IntN(1000))
		x.ComponentName, x.Provider, x.Amount = fmt.Sprint("pc", i), "metal", am.Amount{Slots: 1, Memory: 1 << 30}
		x.Interfaces = []am.Interface{{Component: componentURN(fmt.Sprint("pc", i, ":eth1")), ComponentName: "eth1", VLAN: 100 + i%3000}}
		cs.PutSliver(x)
	}
	commit(b, s, func(*View) (ChangeSet, error) { return cs, nil })
	for b.Loop() {
		n := 0
		if err := s.Read(func(v *View) error { return v.Calendar(func(*am.Hold) bool { n++; return true }) }); err != nil || n != entries {
			b.Fatal(n, err)
		}
	}
}
