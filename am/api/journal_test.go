package api

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
)

// TestRepeatedRenewsShareAnEntry checks that the journal joins renewals of the same slivers by the
// same user, and no others.
func TestRepeatedRenewsShareAnEntry(t *testing.T) {
	s := setting{}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s", 24*time.Hour)
	var until string
	renew := func(name string, times int) {
		t.Helper()
		for range times {
			s.pass(time.Second)
			until = s.clock().Add(time.Hour).Format(time.RFC3339)
			alice.call("Renew", strs(name), creds(cred), until, opts()).want(t, "Renew", am.Success)
		}
	}
	var entries []am.JournalEntry
	want := func(rule string, want ...string) {
		t.Helper()
		entries = nil
		err := s.store.Read(func(v *store.View) error {
			return v.Journal(func(e am.JournalEntry) bool { entries = append(entries, e); return true })
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprint(e.Method, " ", len(e.Slivers), " ", max(1, e.Times)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the journal has %q, want %q", rule, got, want)
		}
	}
	a := alice.call("Allocate", slice, creds(cred), request(node("a")+node("b")), opts()).want(t, "Allocate", am.Success)
	one := get(a.slivers(t)[0], "geni_sliver_urn").(string)
	began := s.clock()
	renew(slice, 5)
	want("repeated", "Allocate 2 1", "Renew 2 5")
	if e := entries[1]; !e.Since.Equal(began.Add(time.Second)) || !e.At.Equal(began.Add(5*time.Second)) || e.Text != "until "+until {
		t.Errorf("the entry is of %s to %s, %s; want %s to %s, until %s", e.Since, e.At, e.Text, began.Add(time.Second), began.Add(5*time.Second), until)
	}
	renew(one, 2)
	want("of one sliver", "Allocate 2 1", "Renew 2 5", "Renew 1 2")
	alice.call2("RenewSliver", slice, strs(cred), until, xmlrpc.Struct{}).want(t, "RenewSliver", am.Success)
	renew(slice, 2)
	want("by the other version between them", "Allocate 2 1", "Renew 2 5", "Renew 1 2", "RenewSliver 2 1", "Renew 2 2")
	alice.call("Delete", strs(slice), creds(cred), opts()).want(t, "Delete", am.Success)
	want("what is released stays", "Allocate 2 1", "Renew 2 5", "Renew 1 2", "RenewSliver 2 1", "Renew 2 2", "Delete 2 1")
}
