package api

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

// keys are four different keys.
var keys = func() (k [4]string) {
	for i := range k {
		k[i] = strings.TrimSuffix(testKey, "6o") + string(rune('a'+i)) + "o k" + fmt.Sprint(i)
	}
	return k
}()

const (
	bob      = "urn:publicid:IDN+example.org+user+bob"
	carol    = "urn:publicid:IDN+example.org+user+carol"
	otherBob = "urn:publicid:IDN+other.example.org+user+bob"
)

// accounts returns the accounts that a sliver should have, in their order: login=keys.
func (b *bench) accounts(s am.Sliver) string {
	b.t.Helper()
	all, err := b.store.Slivers()
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, x := range all {
		if !x.URN.Equal(s.URN) {
			continue
		}
		for _, a := range x.Desired.Accounts {
			var comments []string
			for _, k := range a.Keys {
				comments = append(comments, k[strings.LastIndex(k, " ")+1:])
			}
			who := a.User.Name
			if a.User.Authority != authority {
				who += "@" + a.User.Authority
			}
			out = append(out, fmt.Sprintf("%s:%s=%s", strings.ToLower(who), a.Login, strings.Join(comments, "+")))
		}
	}
	return strings.Join(out, " ")
}

// TestUpdateUsers checks the rules of geni_update_users (AM API v3, "Operational actions"). The
// keys of each listed user are replaced, new users are added, others stay, and an empty list of
// keys removes the user.
func TestUpdateUsers(t *testing.T) {
	b := newBench(t)
	alice := b.alice.urn.String()
	account := func(u, login string, k ...string) am.Account {
		return am.Account{Login: login, User: urn.MustParse(u), Keys: k}
	}
	x := in(b.x, "ready")
	x.Desired.Accounts = []am.Account{account(alice, "alice", keys[0]), account(bob, "bob", keys[1]), account(otherBob, "bob2", keys[2])}
	y := in(b.y, "ready") // has never had any
	const before = "alice:alice=k0 bob:bob=k1 bob@other.example.org:bob2=k2"
	with := func(u string, k ...string) xmlrpc.Value {
		list := []xmlrpc.Value{}
		for _, s := range k {
			list = append(list, s)
		}
		return xmlrpc.Struct{opt("urn", u), opt("keys", list)}
	}
	for _, tt := range []struct {
		rule  string
		users []xmlrpc.Value
		x, y  string
	}{
		{"the keys of a listed user are replaced, and others stay as they are", []xmlrpc.Value{with(bob, keys[2], keys[3])},
			"alice:alice=k0 bob:bob=k2+k3 bob@other.example.org:bob2=k2", "bob:bob=k2+k3"},
		{"a new user is added", []xmlrpc.Value{with(carol, keys[3])}, before + " carol:carol=k3", "carol:carol=k3"},
		{"an empty list takes the user away", []xmlrpc.Value{with(alice)}, "bob:bob=k1 bob@other.example.org:bob2=k2", ""},
		{"one who is not there is taken away in peace", []xmlrpc.Value{with(carol)}, before, ""},
		{"nobody is listed", []xmlrpc.Value{}, before, ""},
		{"all at once", []xmlrpc.Value{with(carol, keys[3]), with(bob), with(alice, keys[1])},
			"alice:alice=k1 bob@other.example.org:bob2=k2 carol:carol=k3", "carol:carol=k3 alice:alice=k1"},
		{"everybody is taken away", []xmlrpc.Value{with(otherBob), with(bob), with(alice)}, "", ""},
		{"of a user listed twice all keys count, each once", []xmlrpc.Value{with(bob, keys[2], keys[3]), with(bob, keys[3], keys[0])},
			"alice:alice=k0 bob:bob=k2+k3+k0 bob@other.example.org:bob2=k2", "bob:bob=k2+k3+k0"},
		{"listed with keys and without", []xmlrpc.Value{with(bob, keys[3]), with(bob)},
			"alice:alice=k0 bob:bob=k3 bob@other.example.org:bob2=k2", "bob:bob=k3"},
		{"listed without keys and with", []xmlrpc.Value{with(bob), with(bob, keys[3])},
			"alice:alice=k0 bob:bob=k3 bob@other.example.org:bob2=k2", "bob:bob=k3"},
		{"a user in other letters is the same", []xmlrpc.Value{with(strings.Replace(bob, "+bob", "+BOB", 1), keys[3])},
			"alice:alice=k0 bob:bob=k3 bob@other.example.org:bob2=k2", "bob:bob=k3"},
		{"a namesake keeps the login of the slice", []xmlrpc.Value{with(otherBob, keys[0])},
			"alice:alice=k0 bob:bob=k1 bob@other.example.org:bob2=k0", "bob@other.example.org:bob2=k0"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b.put(x, y)
			if got := b.accounts(b.x); got != before {
				t.Fatalf("before: %s", got)
			}
			b.alice.call("PerformOperationalAction", strs(b.slice), creds(b.cred), "geni_update_users", opts(opt("geni_users", tt.users))).want(t, tt.rule, am.Success)
			if got := b.accounts(b.x); got != tt.x {
				t.Errorf("got  %s\nwant %s", got, tt.x)
			}
			if got := b.accounts(b.y); got != tt.y {
				t.Errorf("on the other node\ngot  %s\nwant %s", got, tt.y)
			}
			// Done or cancelled, the accounts stay.
			for _, n := range []am.Sliver{b.x, b.y} {
				if b.status(n).Operational != am.UpdatingUsers {
					t.Errorf("it is in %v", b.status(n))
				}
			}
			b.alice.call("PerformOperationalAction", strs(b.y.URN.String()), creds(b.cred), "geni_update_users_cancel", opts()).want(t, "cancel", am.Success)
			b.settle()
			if b.accounts(b.x) != tt.x || b.accounts(b.y) != tt.y || b.status(b.x) != column("ready") || b.status(b.y) != column("ready") {
				t.Errorf("afterwards: %s in %v, %s in %v", b.accounts(b.x), b.status(b.x), b.accounts(b.y), b.status(b.y))
			}
		})
	}

	update := func(urns []xmlrpc.Value, users []xmlrpc.Value, o ...xmlrpc.Member) answer {
		return b.alice.call("PerformOperationalAction", urns, creds(b.cred), "geni_update_users", opts(append(o, opt("geni_users", users))...))
	}
	t.Run("only the slivers named", func(t *testing.T) {
		b.put(x, y)
		update(strs(y.URN.String()), []xmlrpc.Value{with(carol, keys[3])}).want(t, "update", am.Success)
		if b.accounts(b.x) != before || b.accounts(b.y) != "carol:carol=k3" {
			t.Errorf("%s, %s", b.accounts(b.x), b.accounts(b.y))
		}
	})
	t.Run("a key that cannot work changes nothing", func(t *testing.T) {
		b.put(x, y)
		update(strs(b.slice), []xmlrpc.Value{with(alice), with(bob, keys[3], "ssh-rsa junk")}).want(t, "update", am.BadArgs)
		if b.accounts(b.x) != before || b.status(b.x) != column("ready") {
			t.Errorf("%s in %v", b.accounts(b.x), b.status(b.x))
		}
	})
	t.Run("under best effort those that are not ready keep theirs", func(t *testing.T) {
		off := x
		off.Status = column("notready")
		b.put(off, y)
		update(strs(b.slice), []xmlrpc.Value{with(carol, keys[3])}).want(t, "all or nothing", am.Refused)
		if b.accounts(b.x) != before || b.accounts(b.y) != "" {
			t.Errorf("a refused call: %s, %s", b.accounts(b.x), b.accounts(b.y))
		}
		update(strs(b.slice), []xmlrpc.Value{with(carol, keys[3])}, opt("geni_best_effort", true)).want(t, "best effort", am.Success)
		if b.accounts(b.x) != before || b.accounts(b.y) != "carol:carol=k3" {
			t.Errorf("%s, %s", b.accounts(b.x), b.accounts(b.y))
		}
	})
	t.Run("taken away and added again, a user has the old login", func(t *testing.T) {
		b.put(x, y)
		for _, users := range [][]xmlrpc.Value{{with(otherBob)}, {with(otherBob, keys[3])}} {
			update(strs(b.slice), users).want(t, "update", am.Success)
			b.settle()
		}
		if got := b.accounts(b.y); got != "bob@other.example.org:bob2=k3" {
			t.Error(got)
		}
	})
	t.Run("Provision gives the logins that users have in the slice", func(t *testing.T) {
		b.put(x, in(b.y, "allocated"))
		b.alice.call("Provision", strs(b.slice), creds(b.cred), opts(opt("geni_users", []xmlrpc.Value{with(otherBob, keys[3]), with(carol), with(alice, keys[0])}))).want(t, "Provision", am.Success)
		if got := b.accounts(b.y); got != "bob@other.example.org:bob2=k3 alice:alice=k0" || b.accounts(b.x) != before {
			t.Errorf("%s, %s", got, b.accounts(b.x))
		}
	})
	t.Run("a node has at most a thousand", func(t *testing.T) {
		b.put(y)
		for n := range 5 {
			var many []xmlrpc.Value
			for i := range 250 {
				many = append(many, with(fmt.Sprintf("urn:publicid:IDN+example.org+user+u%d-%d", n, i), keys[0]))
			}
			a := update(strs(b.slice), many)
			want := am.Success
			if n == 4 {
				want = am.TooBig
			}
			a.want(t, fmt.Sprintf("%d users", 250*(n+1)), want)
			b.settle()
		}
	})
}
