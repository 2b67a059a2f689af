package operate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/urn"
)

func TestUsageCountsProvisionedTime(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	hour := func(h float64) time.Time { return start.Add(time.Duration(h * float64(time.Hour))) }
	of := func(kind, authority, name string) urn.URN {
		return urn.URN{Authority: authority, Type: kind, Name: name}
	}
	alice, bob := of(urn.User, "example.org", "alice"), of(urn.User, "example.org", "bob")
	one, two := of(urn.Slice, "example.org:one", "s"), of(urn.Slice, "example.org:two", "s")
	withTypes := func(e am.JournalEntry, types ...string) am.JournalEntry { e.Types = types; return e }
	entry := func(h float64, event string, caller, slice urn.URN, slivers ...string) am.JournalEntry {
		e := am.JournalEntry{At: hour(h), Event: event, Caller: caller, Slice: slice}
		for _, s := range slivers {
			e.Slivers = append(e.Slivers, of(urn.Sliver, "example.org", s))
		}
		return e
	}
	kinds := map[string]string{"e": "vm"}
	held := func(h float64, s string, state am.AllocationState) am.Sliver {
		return am.Sliver{URN: of(urn.Sliver, "example.org", s), Slice: one, Creator: alice, Created: hour(h), SliverType: kinds[s], Status: am.Status{Allocation: state}}
	}
	ahead := func(s string, begins, ends float64) am.Sliver {
		x := held(1, s, am.Allocated)
		x.Begins, x.Ends = hour(begins), hour(ends)
		return x
	}
	var none urn.URN
	for _, c := range []struct {
		rule    string
		entries []am.JournalEntry
		held    []am.Sliver
		want    []Usage
	}{
		{"from Provision to Delete, for the user that reserved", []am.JournalEntry{
			entry(1, "Allocate", alice, one, "a", "b"), entry(2, "Provision", bob, one, "a", "b"), entry(3, "geni_start", alice, one, "a"),
			entry(4, "Delete", bob, one, "a"), entry(5.5, "lease over", none, one, "b"),
		}, nil, []Usage{{alice, "example.org:one", 2, 5.5, 0, 0, ""}}},
		{"CreateSliver provisions", []am.JournalEntry{entry(1, "CreateSliver", bob, two, "a"), entry(2, "Delete", bob, two, "a")}, nil, []Usage{{bob, "example.org:two", 1, 1, 0, 0, ""}}},
		{"a reservation alone does not count", []am.JournalEntry{
			entry(1, "Allocate", alice, one, "a", "b"), entry(2, "lease over", none, one, "a"),
		}, []am.Sliver{held(1, "b", am.Allocated)}, nil},
		{"nor one that began and was not used, nor waiting until the start", []am.JournalEntry{
			entry(1, "Allocate", alice, one, "a", "b", "c"), entry(2, lease.EventProvisionAtStart, alice, one, "b"), entry(3, "Delete", alice, one, "b"), entry(4, lease.EventBegins, none, one, "a"), entry(5, lease.EventNoShow, none, one, "a", "d"),
		}, []am.Sliver{held(1, "c", am.Allocated)}, nil},
		{"provisioned at the start", []am.JournalEntry{
			entry(1, "Allocate", alice, one, "a"), entry(4, "Provision", none, one, "a"), entry(4, lease.EventBegins, none, one, "a"), entry(6, "Delete", alice, one, "a"),
		}, nil, []Usage{{alice, "example.org:one", 1, 2, 0, 0, ""}}},
		{"what has not begun is apart", []am.JournalEntry{entry(1, "Allocate", alice, one, "a"), entry(2, "CreateSliver", alice, one, "b")},
			[]am.Sliver{ahead("a", 20, 25), ahead("c", 30, 30.5), held(2, "b", am.Provisioned)}, []Usage{{alice, "example.org:one", 1, 8, 0, 5.5, ""}}},
		{"users and projects apart", []am.JournalEntry{
			entry(1, "CreateSliver", bob, two, "a"), entry(1, "CreateSliver", alice, two, "b"), entry(1, "CreateSliver", alice, one, "c"),
			entry(2, "Delete", bob, two, "a", "b"), entry(3, "Delete", alice, one, "c"),
		}, nil, []Usage{{alice, "example.org:one", 1, 2, 0, 0, ""}, {alice, "example.org:two", 1, 1, 0, 0, ""}, {bob, "example.org:two", 1, 1, 0, 0, ""}}},
		{"types apart; a held sliver has its own, and one whose reservation is lost none", []am.JournalEntry{
			withTypes(entry(1, "CreateSliver", alice, one, "a", "b", "c"), "vm", "raw-pc large", "vm"), entry(2, "Delete", alice, one, "a", "b", "c"), entry(5, "Provision", alice, one, "d"), entry(6, "Delete", alice, one, "d"),
		}, []am.Sliver{held(8, "e", am.Provisioned)}, []Usage{{alice, "example.org:one", 1, 1, 0, 0, ""}, {alice, "example.org:one", 1, 1, 0, 0, "raw-pc large"}, {alice, "example.org:one", 3, 4, 0, 0, "vm"}}},
		{"a change of the slice, which lists what it keeps, begins nothing anew", []am.JournalEntry{
			entry(1, "CreateSliver", alice, one, "a"), entry(2, "Allocate", bob, one, "a", "b"), entry(3, "Delete", alice, one, "a"),
		}, nil, []Usage{{alice, "example.org:one", 1, 2, 0, 0, ""}}},
		{"the period cuts", []am.JournalEntry{
			entry(-2, "CreateSliver", alice, one, "before", "across", "around"), entry(-1, "Delete", alice, one, "before"), entry(1, "Delete", alice, one, "across"),
			entry(9, "CreateSliver", alice, one, "late"), entry(11, "Delete", alice, one, "late", "around"), entry(12, "CreateSliver", alice, one, "after"),
		}, []am.Sliver{held(12, "after", am.Provisioned)}, []Usage{{alice, "example.org:one", 3, 12, 0, 0, ""}}},
		{"held slivers count until the end; released ones do not go on", []am.JournalEntry{
			entry(1, "Allocate", alice, one, "a", "b"), entry(2, "Provision", alice, one, "a", "b"), entry(3, "Delete", alice, one, "b"),
		}, []am.Sliver{held(1, "a", am.Provisioned), held(1, "b", am.Unallocated)}, []Usage{{alice, "example.org:one", 2, 9, 0, 0, ""}}},
		{"a held sliver whose entries are lost counts from its record", nil, []am.Sliver{held(4, "a", am.Provisioned)}, []Usage{{alice, "example.org:one", 1, 6, 0, 0, ""}}},
		{"a released one counts from the first entry, for no user", []am.JournalEntry{
			entry(3, "geni_start", bob, two, "x"), entry(5, "lease over", none, one, "a"),
		}, nil, []Usage{{none, "example.org:one", 1, 2, 1, 0, ""}}},
	} {
		count := newUsageCount(start, hour(10))
		for _, e := range c.entries {
			count.addEntry(&e)
		}
		for _, x := range c.held {
			count.addHeld(&x)
		}
		if diff := cmp.Diff(c.want, count.rows()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.rule, diff)
		}
	}
}
