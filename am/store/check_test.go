package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
)

// filled is a closed store with the sample in it.
func filled(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	filledOnce.Do(func() {
		s, err := Open(path, Options{Now: at, Site: sampleSite})
		if err != nil {
			t.Fatal(err)
		}
		sampleRecords().fill(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := &pages{r: bytes.NewReader(text), page: 4096}
		if _, err := p.check(int64(len(text))); err != nil {
			t.Fatal(err)
		}
		filledBytes = text[:4096*p.meta.pages] // the rest is room to grow
	})
	if err := os.WriteFile(path, filledBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	filledOnce  sync.Once
	filledBytes []byte
)

func TestCheckFindsNothing(t *testing.T) {
	path := filled(t)
	r, err := Check(path)
	if err != nil || r.Err() != nil {
		t.Fatalf("%v, %v", err, r)
	}
	if r.Site != sampleSite || r.Schema != schemaVersion || r.Revision == 0 || r.Size == 0 || r.Stale {
		t.Errorf("the report is %+v", r)
	}
	for k, n := range map[Kind]int{Slices: 3, Slivers: 11, Documents: 3, Tasks: 3, Journal: 4, Changes: 0} {
		if r.Records[k] != n {
			t.Errorf("%d %s, want %d", r.Records[k], k, n)
		}
	}
	older := filepath.Join(t.TempDir(), "old.db")
	old(t, 1, older)
	if r, err := Check(older); err != nil || r.Err() != nil || r.Schema != 1 {
		t.Errorf("of the older file: %v, %+v", err, r)
	}
	if _, err := Check(older + "x"); err == nil || !strings.Contains(err.Error(), "there is no store") {
		t.Errorf("without a file: %v", err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Check(path); !errors.Is(err, ErrLocked) {
		t.Errorf("of an open one: %v", err)
	}
	if r, err := s.Check(); err != nil || r.Err() != nil || r.Records[Slivers] != 11 {
		t.Errorf("by the one that has it open: %v, %+v", err, r)
	}
}

// TestCheckFinds checks that each inconsistency is reported with the bucket that has it.
func TestCheckFinds(t *testing.T) {
	x := sampleRecords()
	record := func(k Key, v any) op {
		b, err := encode(1, v)
		if err != nil {
			t.Fatal(err)
		}
		return op{string(k.Kind), []byte(k.ID), b}
	}
	first, second := x.slivers[1], x.slivers[2] // of different slices
	other := func(f func(*am.Sliver)) op { s := second; f(&s); return record(SliverKey(s.URN), s) }
	index := sliceIndexKey(first.Slice.Key(), first.URN.Key())
	hold := am.HoldOf(&first)
	key := calendarKey(&hold)
	waiting := x.slivers[8]
	early := x.slivers[9] // of another slice; it begins when waiting ends
	early.Begins = early.Begins.Add(-time.Second)
	for _, tt := range []struct {
		rule   string
		ops    []op
		bucket string
		want   string
	}{
		{"no JSON", []op{{string(Slices), []byte("x"), append(make([]byte, 8), "{"...)}}, "slices", "cannot read"},
		{"too short", []op{{string(Tasks), []byte("x"), []byte("1")}}, "tasks", "too short"},
		{"another sum", []op{{string(Journal), []byte("x"), append([]byte{checksumMark, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, "{}"...)}}, "journal", "sum"},
		{"another form", []op{{string(Slivers), []byte("x"), append([]byte{2, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, "{}"...)}}, "slivers", "sum"},
		{"a document without text", []op{{string(Documents), []byte("x"), append(make([]byte, 8), "{}"...)}}, "requests", "no text"},
		{"a slice under another name", []op{record(Key{Slices, "x"}, x.slices[0])}, "slices", "record of"},
		{"a document under another name", []op{record(Key{Documents, "x"}, x.documents[0])}, "requests", "record of"},
		{"a sliver under another name", []op{record(Key{Slivers, "x"}, first)}, "slivers", "record of"},
		{"a later revision", []op{{metaBucket, []byte(revisionName), binary.BigEndian.AppendUint64(nil, 1)}}, "slices", "its revision is"},
		{"a sliver without its slice", []op{{string(Slices), []byte(first.Slice.Key()), nil}}, "slivers", "has no record"},
		{"a sliver without its request", []op{{string(Documents), []byte(first.Document), nil}}, "slivers", "is missing"},
		{"a component held twice", []op{other(func(s *am.Sliver) { s.Component = first.Component })}, "slivers", "exclusively"},
		{"an exclusive one shared", []op{other(func(s *am.Sliver) { s.Component, s.Exclusive = first.Component, false })}, "slivers", "exclusively"},
		{"a task without a sliver", []op{record(TaskKey(sliverURN("none")), am.Task{Sliver: sliverURN("none")})}, "tasks", "its sliver"},
		{"a task of a later generation", []op{record(TaskKey(first.URN), am.Task{Sliver: first.URN, Generation: first.Generation + 1})}, "tasks", "generation"},
		{"a task of another", []op{record(TaskKey(second.URN), am.Task{Sliver: first.URN})}, "tasks", "record of"},
		{"a component under another name", []op{record(Key{Components, "x"}, am.FoundComponent{URN: first.Component})}, "components", "record of"},
		{"a journal entry of no number", []op{record(Key{Journal, "x"}, am.JournalEntry{ID: "x"})}, "journal", "not the number"},
		{"a journal entry to come", []op{record(Key{Journal, Position(99999, 0)}, am.JournalEntry{ID: Position(99999, 0)})}, "journal", "not the number"},
		{"an index too many", []op{{bySlice, []byte("x\x00y"), []byte{}}}, bySlice, "no record"},
		{"an index too few", []op{{bySlice, index, nil}}, bySlice, "missing"},
		{"an end too many", []op{{byExpiry, expiryKey(noon, "x"), []byte{}}}, byExpiry, "no record"},
		{"an end too few", []op{{byExpiry, expiryKey(first.Expires, first.URN.Key()), nil}}, byExpiry, "missing"},
		{"a start too many", []op{{byStart, startKey(noon, "c", "x"), []byte{}}}, byStart, "no record"},
		{"a start too few", []op{{byStart, startKey(waiting.Begins, waiting.Component.Key(), waiting.URN.Key()), nil}}, byStart, "missing"},
		{"reservations that overlap", []op{record(SliverKey(early.URN), early)}, "slivers", "at the same time"},
		{"a hold too many", []op{{calendarBucket, []byte("x"), []byte{}}}, calendarBucket, "no sliver"},
		{"a hold too few", []op{{calendarBucket, key, nil}}, calendarBucket, "missing"},
		{"a hold that differs", []op{{calendarBucket, key, calendarValue(key, &am.Hold{})}}, calendarBucket, "differs"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			path := filled(t)
			db, err := openDatabase(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.update(func(r reader) error { return r.apply(tt.ops...) }), db.close()); err != nil {
				t.Fatal(err)
			}
			r, err := Check(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Problems {
				if p.Bucket == tt.bucket && strings.Contains(p.What, tt.want) {
					return
				}
			}
			t.Errorf("it found %v; want %s: %s", r.Problems, tt.bucket, tt.want)
		})
	}
}

func TestReportIsBounded(t *testing.T) {
	var r Report
	for i := range 3 * maxProblems {
		r.add("b", fmt.Sprint(i), "no")
	}
	if len(r.Problems) != maxProblems || r.More != 2*maxProblems || strings.Count(r.Err().Error(), "\n") != 3 {
		t.Errorf("%d and %d: %v", len(r.Problems), r.More, r.Err())
	}
}

// TestFlippedBits flips single bits in every page of a store. Check reports the damage,
// or the store has all its records. The process survives, and a refused file is not changed.
func TestFlippedBits(t *testing.T) {
	original, err := os.ReadFile(filled(t))
	if err != nil {
		t.Fatal(err)
	}
	flips := 16
	if testing.Short() {
		flips = 4
	}
	random := rand.New(rand.NewPCG(1, uint64(len(original))))
	path := filepath.Join(t.TempDir(), "store.db")
	const page = 4096
	looked := &pages{r: bytes.NewReader(original), page: page}
	if _, err := looked.check(int64(len(original))); err != nil {
		t.Fatal(err)
	}
	refused, told, undamaged := 0, 0, 0
	for p := range int(looked.meta.pages) {
		if looked.use[p] != used {
			continue
		}
		for i := range flips {
			place := p*page + random.IntN(page)
			if i%2 == 0 { // page headers matter most
				place = p*page + random.IntN(128)
			}
			b := bytes.Clone(original)
			b[place] ^= 1 << random.IntN(8)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Check(path)
			after, _ := os.ReadFile(path)
			switch {
			case !bytes.Equal(b, after):
				t.Fatalf("byte %d: the file was changed", place)
			case err != nil:
				refused++
				if s, err := Open(path, Options{Site: sampleSite, Move: true}); err == nil {
					s.Close()
					t.Errorf("byte %d: Open accepts a store that Check refuses", place)
				}
				if after, _ := os.ReadFile(path); !bytes.Equal(b, after) {
					t.Fatalf("byte %d: a refused file was changed", place)
				}
			case r.Err() != nil || r.Stale || r.Site != sampleSite: // the report has the damage
				told++
			default:
				undamaged++
				if undamaged%16 != 0 { // these take time
					continue
				}
				s, err := Open(path, Options{Now: at, Site: sampleSite, Move: true})
				if err != nil {
					t.Errorf("byte %d: Open refuses a store that Check accepts: %v", place, err)
					continue
				}
				sampleRecords().compare(t, s)
				commit(t, s, put(sliver("new", "s", 1)))
				s.Close()
			}
		}
	}
	t.Logf("%d pages: %d refused, %d reported, %d undamaged", looked.meta.pages, refused, told, undamaged)
	if refused < flips || told < flips || undamaged < flips {
		t.Error("too few cases of a kind")
	}
}
