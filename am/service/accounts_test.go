package service

import (
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
	present := []am.Account{account("ann", "a"), account("bob", "b"), account("eve", "e")}
	got := updateAccounts(present, []am.Account{account("bob", "b2"), account("eve"), account("new", "n")}, []am.Account{account("bob", "b2"), account("new", "n")})
	want := []am.Account{account("ann", "a"), account("bob", "b2"), account("new", "n")}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("bob's keys are replaced, eve's taken away, the new one's added, ann's stay:\n%s", d)
	}
}

func TestAccountsAreBoundedByTheSlice(t *testing.T) {
	big := account("ann", strings.Repeat("k", 1<<20))
	if err := boundAccounts([]am.Account{big}, 32); err != nil {
		t.Errorf("1 MiB on 32 slivers: %v", err)
	}
	if err := boundAccounts([]am.Account{big}, 33); am.CodeOf(err) != am.TooBig {
		t.Errorf("1 MiB on 33 slivers: %v, want TooBig", err)
	}
}
