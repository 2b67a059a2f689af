package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/xmlrpc"
	"patchbay/inventory/local"
)

func TestInsteadNamesWhatThereIs(t *testing.T) {
	for _, c := range []struct {
		want string
		have []string
		says string
	}{
		{"frist", []string{"first", "second"}, "did you mean first? Or "},
		{"First", []string{"first"}, "did you mean first? Or "},
		{"flooby", []string{"first", "second"}, "there are first, second; or "},
		{"flooby", []string{"first"}, "there is only first; or "},
		{"flooby", nil, ""},
		{"zzzzzz", strings.Split("abcdefghijkl", ""), "there are a, b, c, d, e, f, g, h, i, j and 2 more; or "},
	} {
		if got := instead(c.want, c.have); got != c.says {
			t.Errorf("%s of %v: %q, want %q", c.want, c.have, got, c.says)
		}
	}
}

func TestMethodHints(t *testing.T) {
	for _, c := range []struct {
		api          int
		method, says string
	}{
		{3, "Status", ""},
		{3, "status", "; did you mean Status?"},
		{3, "Statsu", "; did you mean Status?"},
		{3, "createsliver", "; did you mean CreateSliver, with --api-version 2?"},
		{2, "Provision", "; give --api-version 3"},
		{3, "Cancel", ""},
	} {
		if got := methodHint(c.api, c.method); got != c.says {
			t.Errorf("%s of version %d: %q, want %q", c.method, c.api, got, c.says)
		}
	}
}

func TestFailedCallsSayWhatWasOverlooked(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		rule string
		err  error
		o    callOptions
		me   caller
		want string
	}{
		{"method misspelt", &xmlrpc.Fault{}, callOptions{API: 3, method: "Statsu"}, caller{}, "did you mean Status?"},
		{"nobody", refused, callOptions{}, caller{}, "refused; no --user was given"},
		{"files without certificate", refused, callOptions{Users: []string{"x"}}, caller{}, "holds no certificate"},
		{"nothing", refused, callOptions{Users: []string{"x"}}, caller{certFile: "x"}, "refused"},
	} {
		if got := c.o.explain(c.err, &c.me); !errors.Is(got, c.err) || !strings.HasSuffix(got.Error(), c.want) && !strings.Contains(got.Error(), c.want+":") {
			t.Errorf("%s: %v, want %q", c.rule, got, c.want)
		}
	}
}

// TestMisspeltNames: whoever is named wrong, of a site, is told who there is.
func TestMisspeltNames(t *testing.T) {
	dir := made(t)
	do := func(want int, args ...string) string {
		t.Helper()
		code, out := tell(t, append(args, "--config", dir)...)
		if code != want {
			t.Fatalf("%s: %d\n%s", strings.Join(args, " "), code, out)
		}
		return out
	}
	out := do(0, "tool", "portal")
	if strings.Contains(out, "speaks for") {
		t.Errorf("it speaks for nobody yet: %s", out)
	}
	do(0, "user", "ann")
	users, portal := filepath.Join(dir, "users"), filepath.Join(dir, "tools", "portal")
	has(t, do(0, "tool", "portal", "--for", "ann"), "--slice "+filepath.Join(users, "ann", "slices", "SLICE-cred.xml")+" Status")
	do(0, "slice", "first", "--owner", "ann")
	has(t, do(0, "tool", "portal", "--for", "ann"), "ListResources\n", "--slice "+filepath.Join(users, "ann", "slices", "first-cred.xml")+" Status")

	has(t, do(1, "slice", "second", "--owner", "anm"), "did you mean ann? Or make it with")
	has(t, do(1, "delegate", "frist", "--from", "ann", "--to", "portal"), "did you mean first? Or get one with")
	has(t, do(1, "delegate", "first", "--from", "ann", "--to", "porta"), "did you mean portal? Or name a file")
	has(t, do(1, "call", "--url", "https://127.0.0.1:1", "--user", filepath.Join(users, "anm"), "Status"), "did you mean ann? Or make a user with")
	has(t, do(1, "call", "--url", "https://127.0.0.1:1", "--user", filepath.Join(users, "ann"), "--slice", "frist", "Status"), "did you mean first? Or make a slice with")
	has(t, do(1, "call", "--user", filepath.Join(users, "ann", "ann-usercred.xml"), "--url", "https://127.0.0.1:1", "ListResources"), "what --user names holds no certificate")

	out = do(1, "call", "--url", "https://127.0.0.1:1", "--user", portal, "--slice", "first", "Status")
	has(t, out, "a tool works in the slice of a user", filepath.Join(users, "USER", "slices", "first-cred.xml"), "delegate first --from USER --to portal")
	if strings.Contains(out, "--owner") {
		t.Errorf("a tool is told to own a slice: %s", out)
	}
}

func TestWrongFilesAreCalledByTheirNames(t *testing.T) {
	dir := made(t)
	settings := filepath.Join(dir, "providers", "simulated.yaml")
	_, out := tell(t, "check", settings)
	has(t, out, "ok       "+strings.TrimSuffix(settings, "yaml")+"prov: provider simulated of type node")

	inventory := filepath.Join(dir, "inventory.yaml")
	for _, command := range []string{"serve", "check"} {
		code, out := tell(t, command, "--config", inventory)
		if code == 0 || strings.Count(out, "inventory") != 2 || !strings.Contains(out, "this is an inventory, not a configuration") { // its name and once more
			t.Errorf("%s: %d\n%s", command, code, out)
		}
	}

	for _, settings := range []string{settings, filepath.Join(dir, "local.yaml")} {
		if filepath.Base(settings) == "local.yaml" {
			if err := os.WriteFile(settings, local.SettingsFor(local.Site{}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if code, out := tell(t, "serve", "--config", settings); code == 0 || !strings.Contains(out, "these are a provider's metadata and settings, not a configuration") {
			t.Errorf("serve with %s: %d\n%s", settings, code, out)
		}
		os.Remove(filepath.Join(dir, "local.yaml"))
	}

	for name, want := range map[string]string{"server-rsa-key.pem": "this is a private key", "request.xml": "for this site"} {
		_, out := tell(t, "check", "--config", dir, filepath.Join(dir, name))
		has(t, out, want)
	}
	other := filepath.Join(t.TempDir(), "id.pub")
	if err := os.WriteFile(other, []byte("ssh-ed25519 AAAA ann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := tell(t, "check", "--config", dir, other)
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	has(t, out, "this is nothing that can be checked")

	trusted := filepath.Join(dir, "trusted", "key.pem")
	if err := os.WriteFile(trusted, []byte(readFile(t, filepath.Join(dir, "server-rsa-key.pem"))), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out = tell(t, "check", "--config", dir, filepath.Dir(trusted))
	has(t, out, "IT HOLDS A PRIVATE KEY", "\n1 mistake.")
}
