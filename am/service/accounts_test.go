package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
)

func account(name string, keys ...string) am.Account {
	return am.Account{Login: name, User: urn.URN{Authority: "example.org", Type: urn.User, Name: name}, Keys: keys}
}

func TestUpdateAccounts(t *testing.T) {
	present := []am.Account{account("alice", "a"), account("bob", "b"), account("eve", "e")}
	got := updateAccounts(present, []am.Account{account("bob", "b2"), account("eve"), account("new", "n")}, []am.Account{account("bob", "b2"), account("new", "n")})
	want := []am.Account{account("alice", "a"), account("bob", "b2"), account("new", "n")}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("bob's keys are replaced, eve's taken away, the new one's added, alice's stay:\n%s", d)
	}
}

func TestAccountsAreBoundedByTheSlice(t *testing.T) {
	var class []am.Account
	for i := range 20 {
		class = append(class, account(fmt.Sprint("u", i), strings.Repeat("k", 600)))
	}
	if err := limitAccounts(class, 300); err != nil {
		t.Errorf("20 users on 300 slivers: %v", err)
	}
	big := []am.Account{account("alice", strings.Repeat("k", 1<<20))}
	if err := limitAccounts(big, 4); err != nil {
		t.Errorf("1 MiB on 4 slivers: %v", err)
	}
	if err := limitAccounts(big, 5); am.CodeOf(err) != am.TooBig {
		t.Errorf("1 MiB on 5 slivers: %v, want TooBig", err)
	}
}
