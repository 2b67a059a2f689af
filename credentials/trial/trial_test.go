package trial_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func create(t *testing.T) (*trial.Authority, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	a, err := trial.Create(dir, "example.org:lab", now)
	if err != nil {
		t.Fatal(err)
	}
	return a, dir
}

func authorizer(t *testing.T, a *trial.Authority) *credentials.Authorizer {
	t.Helper()
	list, err := cert.ParsePEM(a.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return credentials.New(cert.NewAnchors(cert.Anchor{Certificate: list[0]}), credentials.Config{})
}

func rawChain(t *testing.T, pem []byte) (raw [][]byte) {
	t.Helper()
	list, err := cert.ParsePEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		raw = append(raw, c.Raw)
	}
	return raw
}

func TestIssuedCredentialsAreAcceptedByOurOwnServer(t *testing.T) {
	a, _ := create(t)
	alice, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	slice, err := trialtest.NewSlice(a, "s1", "Alice", now.Add(48*time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	z := authorizer(t, a)
	caller := z.Identify(rawChain(t, alice.Certificate), now)
	if caller.Err != nil || caller.URN != urn.MustParse("urn:publicid:IDN+example.org:lab+user+alice") {
		t.Fatalf("caller %v, %v", caller.URN, caller.Err)
	}
	for right, doc := range map[credentials.Right][]byte{credentials.RightListResources: alice.Credential, credentials.RightAllocate: slice.Credential, credentials.RightShutdown: slice.Credential} {
		g, err := z.Authorize(caller, []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: string(doc)}}, "", right, now)
		if err != nil {
			t.Fatalf("%s: %v", right, err)
		}
		if right == credentials.RightListResources {
			continue
		}
		if until, err := g.Over(slice.URN); err != nil || !until.Equal(slice.Expires) {
			t.Errorf("%s over %s until %v, %v; want %v", right, slice.URN, until, err, slice.Expires)
		}
	}
}

func TestIssuedCertificatesCarryTheirNames(t *testing.T) {
	a, _ := create(t)
	alice, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	list, err := cert.ParsePEM(alice.Certificate)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d certificates, %v", len(list), err)
	}
	serials := map[string]bool{}
	for _, c := range list {
		if c.URN.IsZero() || len(c.URIs) != 2 || len(c.EmailAddresses) != 1 || !strings.HasSuffix(c.EmailAddresses[0], "@example.org") {
			t.Errorf("%s has the names %v and the addresses %v", c.Name(), c.URIs, c.EmailAddresses)
		}
		serials[c.SerialNumber.String()] = true
	}
	if list[0].IsCA || !list[1].IsCA || !list[2].IsCA || len(serials) != 3 || list[1].URN.Name != "ma" || list[2].URN.Name != "root" || a.URN().Name != "sa" {
		t.Errorf("leaf CA %v, %s CA %v, %s CA %v, %d serials", list[0].IsCA, list[1].URN, list[1].IsCA, list[2].URN, list[2].IsCA, len(serials))
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey(alice.SSHPublicKey); err != nil {
		t.Error(err)
	}
}

func TestOpenedAuthorityKnowsItsUsersAndSlices(t *testing.T) {
	a, dir := create(t)
	first, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := trial.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.User("ALICE", now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if string(first.Certificate) != string(again.Certificate) || string(first.Key) != string(again.Key) || string(first.SSHKey) != string(again.SSHKey) {
		t.Error("asking again made another user")
	}
	if string(first.Credential) == string(again.Credential) {
		t.Error("asking again gave the old credential")
	}
	if _, err := trial.Create(dir, "example.org", now); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second authority in the same folder: %v", err)
	}
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	a, dir := create(t)
	if _, err := a.User("alice", now); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"authority.key": 0o400, "sa.key": 0o600, "ma.key": 0o600, "users/alice.key": 0o600, "users/alice.ssh": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "users", ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNamesFollowTheStrictForms(t *testing.T) {
	a, _ := create(t)
	for _, name := range []string{"", "9alice", "alice.b", "a234567890123456789012345678901234", "-a", "../alice", "älice", "a\n"} {
		if _, err := a.User(name, now); err == nil || !strings.Contains(err.Error(), "a letter, then up to 31") {
			t.Errorf("user %q: %v", name, err)
		}
	}
	for _, name := range []string{"Alice_99", "alexander", "bob-2", "a2345678901234567890123456789012"} {
		u, err := a.User(name, now)
		if err != nil {
			t.Error(err)
			continue
		}
		if login := am.LoginName(u.URN, func(string) bool { return false }); login != strings.ToLower(name) {
			t.Errorf("%s logs in as %s", name, login)
		}
	}
	for _, name := range []string{"", "-s", "s_1", "twenty-characters-xx", "a/b", "s\n"} {
		if _, err := trialtest.NewSlice(a, name, "Alice_99", now.Add(time.Hour), now); err == nil || !strings.Contains(err.Error(), "up to 18") {
			t.Errorf("slice %q: %v", name, err)
		}
	}
	if _, err := trialtest.NewSlice(a, "9teen-characters-xx", "Alice_99", now.Add(time.Hour), now); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "a b", "-x", "a::b"} {
		if _, err := trial.Create(t.TempDir(), name, now); err == nil {
			t.Errorf("authority %q was made", name)
		}
	}
}

func TestUsersBringTheirOwnSSHKeys(t *testing.T) {
	a, dir := create(t)
	first, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	bob, err := a.User("bob", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"alice", "carol"} {
		u, err := a.UserWithKeys(who, bob.SSHPublicKey, now)
		if err != nil || len(u.SSHKey) != 0 || string(u.SSHPublicKey) != string(bob.SSHPublicKey) {
			t.Errorf("%s: private key %q, public %q, %v", who, u.SSHKey, u.SSHPublicKey, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "users", who+".ssh")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a private SSH key of %s is kept: %v", who, err)
		}
		if again, err := a.User(who, now); err != nil || string(again.SSHPublicKey) != string(bob.SSHPublicKey) {
			t.Errorf("%s asked for again: %q, %v", who, again.SSHPublicKey, err)
		}
	}
	if again, _ := a.User("alice", now); string(again.Certificate) != string(first.Certificate) {
		t.Error("another SSH key made another user")
	}
}

func TestParseSSHKeys(t *testing.T) {
	a, _ := create(t)
	u, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(u.SSHPublicKey))
	for in, want := range map[string]string{
		key: key + "\n",
		"\r\n# mine\r\n" + key + " alice's\r\n" + key: key + " alice's\n" + key + "\n",
		string(u.SSHKey):       "the public half",
		"":                     "public SSH key",
		"# nothing":            "public SSH key",
		key + "\nssh-rsa AAAA": "public SSH key",
		"command=\"x\" " + key: "options",
		key + " \x1b[2J":       "public SSH key",
	} {
		got, err := trial.ParseSSHKeys([]byte(in))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSliceNeedsAnOwnerAndATimeToLive(t *testing.T) {
	a, _ := create(t)
	if _, err := trialtest.NewSlice(a, "s1", "nobody", now.Add(time.Hour), now); err == nil || !strings.Contains(err.Error(), "no user nobody") {
		t.Errorf("without an owner: %v", err)
	}
	if _, err := a.User("alice", now); err != nil {
		t.Fatal(err)
	}
	for _, expires := range []time.Time{now, now.Add(-time.Hour), a.Expires().Add(time.Second)} {
		if _, err := trialtest.NewSlice(a, "s1", "alice", expires, now); err == nil {
			t.Errorf("a slice until %v was made", expires)
		}
	}
}

func TestConcurrentCallsMakeOneUser(t *testing.T) {
	a, _ := create(t)
	var wg sync.WaitGroup
	users := make([]trial.User, 4)
	for i := range users {
		wg.Go(func() {
			var err error
			if users[i], err = a.User("alice", now); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, u := range users[1:] {
		if string(u.Certificate) != string(users[0].Certificate) {
			t.Fatal("two users of one name")
		}
	}
}

// TestUsersOfAFolderWithBrackets lists the users of an authority whose folder looks like a pattern.
func TestUsersOfAFolderWithBrackets(t *testing.T) {
	a, err := trial.Create(filepath.Join(t.TempDir(), "site[1]"), "example.org", now)
	if err != nil {
		t.Fatal(err)
	}
	if users, _, err := a.Users(); len(users) != 0 || err != nil {
		t.Errorf("a new authority has the users %v, %v", users, err)
	}
	if _, err := a.User("alice", now); err != nil {
		t.Fatal(err)
	}
	if users, _, err := a.Users(); len(users) != 1 || err != nil {
		t.Errorf("the users are %v, %v", users, err)
	}
}
