package session

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"patchbay/am/client/userfolder"
	"patchbay/am/site"
)

// TestAggregateAndUserAreFoundInOneOrder proves the order in which commands look for the
// aggregate and the user: --url, --config, the user's folder, the site in the current
// folder, the user's own site.
func TestAggregateAndUserAreFoundInOneOrder(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	makeSite := func(dir, url string, users ...string) {
		t.Helper()
		text := "authority: testbed.example.org\nlisten: 127.0.0.1:1\npublic_url: " + url + "\nkeys: [{certificate: a.pem, key: b.pem}]\n"
		if err := site.ReplaceFile(filepath.Join(dir, site.ConfigName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range users {
			if err := site.ReplaceFile(filepath.Join(dir, site.UsersDir, name, name+"-cert.pem"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	makeSite(in("own/patchbay"), "https://own.example.org", "me")
	makeSite(in("here"), "https://here.example.org", "alice")
	makeSite(in("named"), "https://named.example.org", "alice", "bob")
	makeSite(in("empty/patchbay"), "https://empty.example.org")
	makeSite(in("busy"), "https://busy.example.org", "alice", "bob")
	if err := site.ReplaceFile(in("busy/users/bob/slices/first.request.xml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	makeSite(in("shared/patchbay"), "https://shared.example.org", "alice", "bob")
	for dir, url := range map[string]string{"folder": "https://folder.example.org/am/2.0", "roots/patchbay": "https://roots.example.org/am/3.0"} {
		for name, text := range map[string]string{"alice-cert.pem": "", userfolder.AggregateName: "url: " + url + "\nca: ca.pem\n"} {
			if err := site.ReplaceFile(filepath.Join(in(dir), name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(in("nowhere"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule, cwd, state, args string
		url, user, ca          string // user and CA are relative to the root of the test
		fails                  string
	}{
		{"--url, and no user of the site here", "here", "own", "--url https://127.0.0.1:1", "https://127.0.0.1:1/am/3.0", "", "", ""},
		{"--url and --config: the site's user", "nowhere", "own", "--url https://127.0.0.1:1 --config ROOT/here", "https://127.0.0.1:1/am/3.0", "here/users/alice", "", ""},
		{"--config before the folder", "folder", "own", "--config ROOT/here", "https://here.example.org/am/3.0", "here/users/alice", "", ""},
		{"the folder before the site here", "here", "own", "--user ROOT/folder", "https://folder.example.org/am/2.0", "folder", "folder/ca.pem", ""},
		{"the current folder is the user's", "folder", "own", "", "https://folder.example.org/am/2.0", "folder", "folder/ca.pem", ""},
		{"the site here before the own one", "here", "own", "", "https://here.example.org/am/3.0", "here/users/alice", "", ""},
		{"the own site", "nowhere", "own", "", "https://own.example.org/am/3.0", "own/patchbay/users/me", "", ""},
		{"a name at the own site", "nowhere", "own", "--user ME", "https://own.example.org/am/3.0", "own/patchbay/users/me", "", ""},
		{"the folder of a user of root's site", "nowhere", "roots", "", "https://roots.example.org/am/3.0", "roots/patchbay", "roots/patchbay/ca.pem", ""},
		{"several users", "nowhere", "own", "--config ROOT/named", "", "", "", "add --user NAME: alice, bob"},
		{"the only one of several users with experiments", "nowhere", "own", "--config ROOT/busy", "https://busy.example.org/am/3.0", "busy/users/bob", "", ""},
		{"the user that was made with the own site", "nowhere", "shared", "", "https://shared.example.org/am/3.0", "shared/patchbay/users/alice", "", ""},
		{"a name that is not there", "nowhere", "own", "--user guest", "", "", "", "user guest --config ROOT/own/patchbay"},
		{"no users", "nowhere", "empty", "", "https://empty.example.org/am/3.0", "", "", ""},
		{"nothing", "nowhere", "nowhere", "", "", "", "", "no aggregate given"},
	} {
		t.Chdir(in(tt.cwd))
		t.Setenv("XDG_STATE_HOME", in(tt.state))
		s := ChosenSite{File: site.ConfigName}
		f := Selection{Site: &s}
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		fs.Var(&s, "config", "")
		fs.StringVar(&f.URL, "url", "", "")
		fs.StringArrayVar(&f.Users, "user", nil, "")
		if err := fs.Parse(strings.Fields(strings.ReplaceAll(tt.args, "ROOT", root))); err != nil {
			t.Fatal(err)
		}
		got, err := f.Target(t.Context())
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(tt.fails, "ROOT", root)) {
				t.Errorf("%s: %v, want %q", tt.rule, err, tt.fails)
			}
			continue
		}
		user, ca := "", got.CA
		if len(got.Paths) > 0 {
			user, _ = filepath.Abs(got.Paths[0])
			user, _ = filepath.Rel(root, user)
		}
		if ca != "" {
			ca, _ = filepath.Abs(ca)
			ca, _ = filepath.Rel(root, ca)
		}
		if err != nil || got.URL != tt.url || user != tt.user || ca != tt.ca {
			t.Errorf("%s: %s, user %q, CA %q, %v; want %s, %q, %q", tt.rule, got.URL, user, ca, err, tt.url, tt.user, tt.ca)
		}
	}
}

// TestURLWithoutAPathIsTriedFirst checks that a URL without a path is tried first, because some
// aggregates serve the API at the root.
func TestURLWithoutAPathIsTriedFirst(t *testing.T) {
	const answer = `<methodResponse><params><param><value><struct><member><name>geni_api</name><value><int>3</int></value></member>` +
		`<member><name>code</name><value><struct><member><name>geni_code</name><value><int>0</int></value></member></struct></value></member>` +
		`<member><name>value</name><value><struct><member><name>geni_api</name><value><int>3</int></value></member>` +
		`<member><name>geni_api_versions</name><value><struct><member><name>3</name><value>https://am.example.org%s</value></member></struct></value></member>` +
		`</struct></value></member><member><name>output</name><value></value></member></struct></value></param></params></methodResponse>`
	for _, tt := range []struct {
		rule, names, want string
		api               int
	}{
		{"an aggregate that names its root", "/", "/", 0},
		{"an aggregate that names another path", "/RPC2", "/", 0},
		{"an aggregate that names the usual path", "/am/3.0", "/am/3.0", 0},
		{"another version than the root has", "/", "/am/2.0", 2},
		{"no answer at the root", "", "/am/3.0", 0},
	} {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.names == "" || r.URL.Path != "/" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/xml")
			io.WriteString(w, fmt.Sprintf(answer, tt.names))
		}))
		f := Selection{Site: new(ChosenSite), URL: s.URL, API: tt.api}
		got, err := f.Target(t.Context())
		if s.Close(); err != nil || got.URL != s.URL+tt.want {
			t.Errorf("%s: %s, %v", tt.rule, got.URL, err)
		}
	}
}

// TestVersionOfURL proves that the version is that of --api-version, else of the URL,
// else 3, and that the URL is changed to match.
func TestVersionOfURL(t *testing.T) {
	for _, c := range []struct {
		url     string
		api     int
		want    string
		wantAPI int
	}{
		{"https://am.example.org:1", 0, "https://am.example.org:1/am/3.0", 3},
		{"https://am.example.org:1/", 2, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/am/2.0", 0, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/xmlrpc/am/2.0/", 0, "https://am.example.org:1/xmlrpc/am/2.0/", 2},
		{"https://am.example.org:1/am/3.0", 2, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/am/2.0", 3, "https://am.example.org:1/am/3.0", 3},
		{"https://am.example.org:1/protogeni/xmlrpc", 2, "https://am.example.org:1/protogeni/xmlrpc", 2},
		{"https://am.example.org:1/protogeni/xmlrpc", 0, "https://am.example.org:1/protogeni/xmlrpc", 3},
	} {
		got, api, err := versionedURL(c.url, c.api)
		if err != nil || got != c.want || api != c.wantAPI {
			t.Errorf("%s with --api-version %d: %s, version %d, %v; want %s, version %d", c.url, c.api, got, api, err, c.want, c.wantAPI)
		}
	}
}
