package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/client/userfolder"
	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// serveReply serves an aggregate that answers each call with a code and members of a value,
// and returns its URL.
func serveReply(t *testing.T, code int, members string) string {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<methodResponse><params><param><value><struct><member><name>code</name><value><struct><member><name>geni_code</name><value><int>%d</int></value></member></struct></value></member>`+
			`<member><name>value</name><value><struct>%s</struct></value></member><member><name>output</name><value/></member></struct></value></param></params></methodResponse>`, code, members)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestSSHUsesOnlyItsOwnConfiguration proves that a user's folder that another user has
// created runs no commands by its ssh_config, and that OpenSSH writes no host keys
// through a link, even if the aggregate does not answer.
func TestSSHUsesOnlyItsOwnConfiguration(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"}, []string{"slice", "lab", "--owner", "alice"})
	aggregate := serveReply(t, 12, "")
	folder := filepath.Join(t.TempDir(), "from-a-stranger")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(dir, "users", "alice"))); err != nil {
		t.Fatal(err)
	}
	ran, mine := filepath.Join(t.TempDir(), "ran"), filepath.Join(t.TempDir(), "authorized_keys")
	program.Write(t, mine, "secret")
	program.Write(t, filepath.Join(folder, "aggregate.yaml"), "url: "+aggregate+"\n")
	program.Write(t, filepath.Join(folder, "slices", "lab.request.xml"), "<rspec/>")
	program.Write(t, filepath.Join(folder, "slices", "lab.manifest.xml"), `<rspec type="manifest" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web" sliver_id="urn:publicid:IDN+example.org+sliver+1">`+
		`<services><login authentication="ssh-keys" hostname="127.0.0.1" port="1" username="alice"/></services></node></rspec>`)
	const foreign = "Host *\n  ProxyCommand touch "
	program.Write(t, filepath.Join(folder, "ssh_config"), foreign+ran+"\n")
	if err := os.Symlink(mine, filepath.Join(folder, "known_hosts")); err != nil {
		t.Fatal(err)
	}
	if run(t.Context(), []string{"ssh", "--user", folder, "web"}, command.Console{Out: io.Discard, Err: io.Discard}) == 0 {
		t.Error("ssh succeeds without a server at that port")
	}
	if userfolder.FileExists(ran) {
		t.Error("a command of the stranger's ssh_config ran")
	}
	isOurs := func() {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(folder, "ssh_config")); err != nil || !strings.HasPrefix(string(text), "# Written by patchbay") {
			t.Errorf("ssh_config is not ours: %q, %v", text, err)
		}
	}
	isOurs()
	known := filepath.Join(folder, "known_hosts")
	if info, err := os.Lstat(known); err != nil || !info.Mode().IsRegular() {
		t.Errorf("host keys would go where the stranger wants: %v", err)
	} else if text, err := os.ReadFile(known); err != nil || len(text) > 0 {
		t.Errorf("what a link leads to was copied: %q, %v", text, err)
	}
	program.Write(t, filepath.Join(folder, "ssh_config"), foreign+ran+"\n")
	if run(t.Context(), []string{"ssh", "--print-config", "--user", folder}, command.Console{Out: io.Discard, Err: io.Discard}) != 0 {
		t.Error("no path of the configuration")
	}
	isOurs()
}
