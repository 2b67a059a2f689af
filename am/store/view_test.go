package store

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/urn"
)

func due(t testing.TB, s *Store, limit int) (list []string, next time.Time) {
	t.Helper()
	err := s.Read(func(v *View) error {
		all, n, err := v.Due(limit)
		for _, x := range all {
			list = append(list, x.URN.Name)
		}
		next = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, next
}

func TestDue(t *testing.T) {
	s := open(t, Options{})
	frozen, released := sliver("frozen", "s", -9), sliver("released", "s", -9)
	frozen.Frozen, released.Status.Allocation = true, am.Unallocated
	never, ages := sliver("never", "s", 0), sliver("ages", "s", 0)
	never.Expires, ages.Expires = time.Time{}, noon.AddDate(400, 0, 0)
	commit(t, s, put(sliver("c", "s", -1), sliver("a", "s", -2), sliver("b", "t", -2), sliver("now", "s", 0), sliver("later", "s", 7), frozen, released, ages))
	list, next := due(t, s, 10)
	if diff := cmp.Diff([]string{"a", "b", "c", "now"}, list); diff != "" || !next.Equal(noon.Add(7*time.Minute)) {
		t.Errorf("%s, next %v", diff, next)
	}
	list, next = due(t, s, 2)
	if diff := cmp.Diff([]string{"a", "b"}, list); diff != "" || !next.Equal(noon.Add(-time.Minute)) {
		t.Errorf("with a limit: %s, next %v", diff, next)
	}
	commit(t, s, put(sliver("a", "s", 9), never))
	if list, _ = due(t, s, 10); !cmp.Equal([]string{"never", "b", "c", "now"}, list) {
		t.Errorf("after renewing a: %v", list)
	}
	consistent(t, s)
}

func TestSliversOf(t *testing.T) {
	s := open(t, Options{})
	released := sliver("c", "S", 1)
	released.Status.Allocation = am.Unallocated
	commit(t, s, put(sliver("b", "s", 1), released, sliver("x", "s1", 1), sliver("a", "s", 1)))
	err := s.Read(func(v *View) error {
		for slice, want := range map[string]string{"s": "a b c", "S": "a b c", "s1": "x", "none": ""} {
			all, err := v.SliversOf(sliceURN(slice))
			if err != nil {
				return err
			}
			var got []string
			for _, x := range all {
				got = append(got, x.URN.Name)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("slice %s has %v, want %s", slice, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRecordsKeepTheirFields(t *testing.T) {
	s := open(t, Options{})
	slice := am.Slice{URN: sliceURN("s"), Created: noon, Serial: 7, Shutdown: noon, ShutdownBy: sliceURN("x")}
	x := sliver("a", "s", 1)
	x.Desired.Accounts = []am.Account{{Login: "u", Keys: []string{"k"}}}
	x.PublicAddress = netip.MustParseAddr("192.0.2.10")
	x.Interfaces = []am.Interface{{
		ClientID: "a:0", Link: "l", Component: urn.MustParse("urn:publicid:IDN+example.org+interface+pc1:eth1"),
		Out: 1000, In: 2000, VLAN: 101, SharedVLAN: "v", Addresses: []netip.Prefix{netip.MustParsePrefix("10.128.0.1/24"), netip.MustParsePrefix("fd00::1/64")},
	}, {ClientID: "a:1"}}
	doc := am.Document{ID: "d", Slice: slice.URN, Received: noon, Managers: []urn.URN{sliceURN("m")}, Bytes: 30, Elements: 1, Text: []byte("<rspec>\x00 \xff ünïcode</rspec>")}
	task := am.Task{Sliver: x.URN, Generation: 3, Goal: am.GoalMake, Since: noon}
	commit(t, s, func(*View) (ChangeSet, error) {
		var cs ChangeSet
		cs.PutSlice(slice)
		cs.PutSliver(x)
		cs.PutDocument(doc)
		cs.PutTask(task)
		return cs, nil
	})
	err := s.Read(func(v *View) error {
		gotSlice, _, err1 := v.Slice(slice.URN)
		gotSliver, _, err2 := v.Sliver(x.URN)
		gotDoc, _, err3 := v.Document("d")
		gotTask, _, err4 := v.Task(x.URN)
		head, err6 := v.DocumentHead("d")
		if head.Text = doc.Text; err6 != nil || !cmp.Equal(doc, head) {
			t.Errorf("the head of the document is %v, %v", head, err6)
		}
		_, _, err5 := v.Document("other")
		if !errors.Is(err5, ErrNotFound) {
			t.Errorf("another document: %v", err5)
		}
		if diff := cmp.Diff([]any{slice, x, doc, task}, []any{gotSlice, gotSliver, gotDoc, gotTask}, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Error(diff)
		}
		tasks := 0
		if err := v.Tasks(func(am.Task) bool { tasks++; return true }); err != nil || tasks != 1 {
			t.Errorf("%d tasks, %v", tasks, err)
		}
		return errors.Join(err1, err2, err3, err4)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHeadsOfEarlierVersionsHaveSizes checks that the head of a document without stored sizes has
// them, because memory for it is reserved by them.
func TestHeadsOfEarlierVersionsHaveSizes(t *testing.T) {
	s := open(t, Options{})
	commit(t, s, func(*View) (cs ChangeSet, err error) {
		cs.PutDocument(am.Document{ID: "d", Slice: sliceURN("s"), Text: []byte("<rspec><node/></rspec>")})
		return cs, nil
	})
	err := s.Read(func(v *View) error {
		head, err := v.DocumentHead("d")
		if head.Bytes != 22 || head.Elements < 2 || head.Text != nil {
			t.Errorf("%+v", head)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestJournalAfter reads a part of the journal by the revision in the number of an entry.
func TestJournalAfter(t *testing.T) {
	s := open(t, Options{})
	for i := range 5 {
		commit(t, s, func(*View) (ChangeSet, error) {
			var cs ChangeSet
			cs.PutSliver(sliver("a", "s", i))
			if i != 2 {
				cs.Log(am.JournalEntry{Event: "one"})
				cs.Log(am.JournalEntry{Event: "two"})
			}
			return cs, nil
		})
	}
	after := func(rev Rev) (ids []string) {
		t.Helper()
		if err := s.Read(func(v *View) error {
			if v.Revision() != 5 {
				t.Errorf("revision %d after five changes", v.Revision())
			}
			return v.JournalAfter(rev, func(e am.JournalEntry) bool { ids = append(ids, e.ID); return true })
		}); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	all := after(0)
	want := []string{Position(1, 0), Position(1, 1), Position(2, 0), Position(2, 1), Position(4, 0), Position(4, 1), Position(5, 0), Position(5, 1)}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the numbers of the entries: %s", diff)
	}
	for rev, want := range map[Rev]int{1: 6, 2: 4, 3: 4, 4: 2, 5: 0} {
		got := after(rev)
		if len(got) != want {
			t.Errorf("%d entries after revision %d, want %d", len(got), rev, want)
		}
		for _, id := range got {
			if n, ok := JournalRev(id); !ok || n <= rev {
				t.Errorf("%s is of revision %d, %v", id, n, ok)
			}
		}
	}
	for _, id := range []string{"", "1-0", "000000000000000g-0000", "0000000000000001-", "0000000000000001"} {
		if n, ok := JournalRev(id); ok {
			t.Errorf("%q is of revision %d", id, n)
		}
	}
}

// TestIndexesFollowRecords compares the indexes with a map over random change sets, some of which
// fail.
func TestIndexesFollowRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		failing := false
		dir := scratch(t)
		defer os.RemoveAll(dir)
		s, err := Open(filepath.Join(dir, "store.db"), Options{Now: at, Write: commitAfter(func() error {
			if failing {
				return errNo
			}
			return nil
		})})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		model := map[string]am.Sliver{}
		for range rapid.IntRange(1, 12).Draw(rt, "change sets") {
			var cs ChangeSet
			next := map[string]am.Sliver{}
			for k, v := range model {
				next[k] = v
			}
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
			for range rapid.IntRange(0, 2).Draw(rt, "deletes") {
				n := name.Draw(rt, "name")
				delete(next, n)
				cs.Remove(SliverKey(sliverURN(n)))
			}
			for range rapid.IntRange(0, 4).Draw(rt, "puts") {
				x := sliver(name.Draw(rt, "name"), rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "slice"), rapid.IntRange(-3, 3).Draw(rt, "minutes"))
				x.Frozen = rapid.Bool().Draw(rt, "frozen")
				if rapid.Bool().Draw(rt, "released") {
					x.Status.Allocation = am.Unallocated
				}
				next[x.URN.Name] = x
				cs.PutSliver(x)
			}
			failing = rapid.IntRange(0, 3).Draw(rt, "fault") == 0
			err := s.Commit(t.Context(), func(*View) (ChangeSet, error) { return cs, nil })
			if err == nil {
				model = next
			} else if !failing {
				rt.Fatal(err)
			}
			if err := inconsistency(s); err != nil {
				rt.Fatal(err)
			}
			all, _ := s.Slivers()
			got := map[string]am.Sliver{}
			for _, x := range all {
				got[x.URN.Name] = x
			}
			if diff := cmp.Diff(model, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	b, _ := encode(7, sliver("a", "s", 1))
	f.Add(b)
	b, _ = encode(8, am.Document{ID: "d", Text: []byte("t")})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var d am.Document
		if _, err := decode(b, &d); err == nil {
			again, err := encode(1, d)
			if err != nil {
				t.Fatal(err)
			}
			var e am.Document
			if _, err := decode(again, &e); err != nil || string(e.Text) != string(d.Text) {
				t.Fatalf("%q is read back as %q, %v", d.Text, e.Text, err)
			}
		}
		var x am.Sliver
		_, _ = decode(b, &x)
	})
}

func TestEndingReturnsLeasesInOrder(t *testing.T) {
	s := open(t, Options{})
	frozen := sliver("frozen", "s", 3)
	frozen.Frozen = true
	commit(t, s, put(sliver("d", "s", 40), sliver("c", "s", 30), sliver("b1", "s", 20), sliver("b2", "s", 20), sliver("a", "s", 10), frozen))
	for _, step := range []struct {
		minutes, limit int
		want           []string
	}{{5, 10, nil}, {30, 2, []string{"a", "b1"}}, {30, 9, []string{"a", "b1", "b2", "c"}}} {
		var got []string
		err := s.Read(func(v *View) error {
			return v.EachEnding(noon.Add(time.Duration(step.minutes)*time.Minute), func(x am.Sliver) bool {
				got = append(got, x.URN.Name)
				return len(got) < step.limit
			})
		})
		if err != nil || !cmp.Equal(got, step.want) {
			t.Errorf("%d minutes on, up to %d: %q, want %q; %v", step.minutes, step.limit, got, step.want, err)
		}
	}
}
