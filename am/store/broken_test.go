package store

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

// spoil overwrites a part of a file with noise, zeros, or one byte.
func spoil(path string, from, size int64, r *rand.Rand) (what string, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	b := make([]byte, []int{1, 64, 4096, 16384, 65536}[r.IntN(5)])
	at := from + r.Int64N(size-from)
	noise := r.IntN(3) > 0
	if noise {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	if r.IntN(2) == 0 {
		at &^= 4095
	}
	b = b[:min(int64(len(b)), size-at)]
	_, err = f.WriteAt(b, at)
	return fmt.Sprintf("%d bytes at %d, noise: %v", len(b), at, noise), errors.Join(err, f.Close())
}

// TestDamageWhileOpen damages the file of an open store in random ways. The process survives, all
// calls end, Broken is called once, and no acknowledged change is lost unless the damage is
// detected.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	origin := filepath.Join(dir, "origin")
	s, err := Open(origin, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		cs := allocation(i)
		if err := s.Commit(t.Context(), func(*View) (ChangeSet, error) { return cs, nil }); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Check()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	intact, err := Check(origin)
	if err != nil {
		t.Fatal(err)
	}
	size, records := intact.Size, report.Records[Slivers]
	broken, refused, well := 0, 0, 0
	rounds := require.Rounds(24, 48)
	for round := range rounds {
		seed := uint64(round)
		r := rand.New(rand.NewPCG(seed, 7))
		path := filepath.Join(dir, fmt.Sprint("s", round))
		text, err := os.ReadFile(origin)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		var told atomic.Int32
		s, err := Open(path, Options{Now: at, Broken: func(error) { told.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		from := int64(0)
		if round%3 > 0 {
			from = 2 * 4096
		}
		what, err := spoil(path, from, size, r)
		if err != nil {
			t.Fatal(err)
		}
		var made [4][]int
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for n := range 6 {
					i := draw(seed, w, n) % 200
					cs := allocation(i)
					cs.Slivers[0] = withExpiry(cs, w, n)
					err := s.Commit(t.Context(), func(v *View) (ChangeSet, error) {
						if _, _, err := v.Sliver(sliver(fmt.Sprint("n", i), "", 0).URN); err != nil && !errors.Is(err, ErrNotFound) {
							return ChangeSet{}, err
						}
						return cs, nil
					})
					if err == nil {
						made[w] = append(made[w], i)
					}
					if _, err := s.Slivers(); err == nil && n == 3 {
						_, _ = s.Check()
					}
					_ = s.Read(func(v *View) error { _, _, err := v.Due(10); return err })
					_ = s.Backup(io.Discard, func(int64) {})
				}
			})
		}
		all.Wait()
		why := s.Err()
		if why != nil {
			broken++
			if err := s.Commit(t.Context(), put(sliver("z", "z", 1))); !errors.Is(err, ErrNotCommitted) || !strings.Contains(err.Error(), "start the server again") && !strings.Contains(err.Error(), "damage") && !strings.Contains(err.Error(), "stored") {
				t.Errorf("%s: after %v: %v", what, why, err)
			}
		}
		if n := told.Load(); n != 0 && why == nil || n > 1 || n == 0 && why != nil {
			t.Errorf("%s: Broken was called %d times, the error is %v", what, n, why)
		}
		_ = s.Close()
		copied := path + ".copy" // the first may stay locked
		text, err = os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(copied, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		report, err := Check(copied)
		switch {
		case err != nil || report.Err() != nil || report.Stale:
			refused++
		default:
			well++
			s, err := Open(copied, Options{Now: at})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, list := range made {
				for _, i := range list {
					err := s.Read(func(v *View) error { _, _, err := v.Sliver(sliver(fmt.Sprint("n", i), "", 0).URN); return err })
					if err != nil {
						t.Errorf("%s: the change of %d was acknowledged and is lost: %v", what, i, err)
					}
				}
			}
			list, err := s.Slivers()
			if err != nil || len(list) < records+n {
				t.Errorf("%s: %d slivers of %d, %v", what, len(list), records, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(os.Remove(path), os.Remove(copied)); err != nil {
			t.Fatal(err)
		}
	}
	if broken < rounds/6 || refused < rounds/6 || well == 0 {
		t.Errorf("%d were broken, %d refused, %d are well", broken, refused, well)
	}
	t.Logf("%d were broken, %d refused when opened again, %d are well", broken, refused, well)
}

// TestLostLastCommitStopsCommits damages the page with the last commit. bbolt would continue from the
// commit before it, so the store refuses further changes.
func TestLostLastCommitStopsCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s, err := Open(path, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(t.Context(), put(sliver("a", "s", 1))), s.Commit(t.Context(), put(sliver("b", "s", 1)))); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first := make([]byte, 2*4096)
	if _, err := f.ReadAt(first, 0); err != nil {
		t.Fatal(err)
	}
	m, _, err := newestMeta(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 512), int64(m.tx%2)*4096); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), put(sliver("c", "s", 1))); !errors.Is(err, ErrNotCommitted) || !errors.Is(err, ErrBroken) {
		t.Errorf("a change: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// draw returns a number that depends only on its arguments.
func draw(seed uint64, w, n int) int {
	return rand.New(rand.NewPCG(seed, uint64(w*100+n))).IntN(1 << 20)
}

// withExpiry returns the sliver of an allocation with another end of its lease.
func withExpiry(cs ChangeSet, w, n int) am.Sliver {
	s := cs.Slivers[0]
	s.Expires = noon.AddDate(0, 0, 1+w+4*n)
	return s
}

// allocation returns the change set of an Allocate of one node.
func allocation(i int) ChangeSet {
	name := fmt.Sprint("n", i)
	s := sliver(name, name, 10)
	s.ClientID, s.Document, s.SliverType, s.Image, s.Created = "node0", name, "raw-pc", "debian-12", noon
	var cs ChangeSet
	cs.PutSlice(am.Slice{URN: s.Slice, Created: noon, Serial: 1})
	cs.PutSliver(s)
	cs.PutDocument(am.Document{ID: name, Slice: s.Slice, Received: noon, Text: []byte(strings.Repeat("<node/>", 100))})
	cs.Log(am.JournalEntry{At: noon, Event: "Allocate", Slice: s.Slice})
	return cs
}
