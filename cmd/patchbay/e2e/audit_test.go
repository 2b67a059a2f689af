package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// auditUser is a user of a site's trial authority, with a slice.
type auditUser struct {
	*client.Client
	*session.Caller
	home string
}

func (in *auditUser) urn() string {
	return "urn:publicid:IDN+testbed.example.org+user+" + filepath.Base(in.home)
}

// createUser creates a user with a slice of the same name.
func (s *servedSite) createUser(name string) {
	s.t.Helper()
	for _, args := range [][]string{{"user", name}, {"slice", name, "--owner", name}} {
		if code, out := program.Run(s.t, append(args, "--config", s.dir)...); code != 0 {
			s.t.Fatal(out)
		}
	}
}

func (s *servedSite) newAuditUser(name string) *auditUser {
	s.t.Helper()
	in := &auditUser{home: filepath.Join(s.dir, "users", name)}
	var err error
	if in.Caller, err = session.ReadCaller([]string{in.home}, name); err != nil {
		s.t.Fatal(err)
	}
	if in.Client, err = client.New(client.Config{URL: s.url + "/am/3.0", CertFile: in.CertFile, KeyFile: in.KeyFile}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(in.Close)
	return in
}

// secrets match texts that must stay in the files of a site and its users.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`PRIVATE KEY`),
	regexp.MustCompile(`-----BEGIN CERTIFICATE`),
	regexp.MustCompile(`MII[A-Za-z0-9+/]{60}`), // of a certificate or key in DER
	regexp.MustCompile(`<signed-credential|<SignatureValue|X509Certificate`),
}

// TestNoSecretsInOutput runs a whole experiment with all logging, and looks for secrets
// in the output.
func TestNoSecretsInOutput(t *testing.T) {
	t.Parallel()
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings(instantNodes)
	program.Edit(t, filepath.Join(s.dir, "patchbay.yaml"), "# log:\n#   format: text          # or json\n#   level: info ", "log:\n  level: debug ")
	s.createUser("alice")
	s.createUser("attacker")
	s.start()
	alice, attacker := s.newAuditUser("alice"), s.newAuditUser("attacker")
	ctx, all := t.Context(), []string{alice.SliceURN}
	var told strings.Builder
	say := func(what string, r client.Reply, want am.Code) {
		t.Helper()
		if r.Code != want {
			t.Errorf("%s: %d %s, want %d", what, r.Code, r.Output, want)
		}
		fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)
	}
	_, r, _ := attacker.Allocate(ctx, alice.SliceURN, alice.ForSlice(), program.SmallRequest, client.Options{})
	say("with another's credential", r, am.Forbidden)
	forged := []client.Credential{{Text: strings.Replace(alice.ForSlice()[0].Text, "alice", "bob", 1) + "\n\x1b[31m"}}
	_, r, _ = alice.Allocate(ctx, alice.SliceURN, forged, program.SmallRequest, client.Options{})
	say("with a forged credential", r, am.Forbidden)
	_, r, _ = alice.Allocate(ctx, alice.SliceURN, alice.ForSlice(), "<rspec\n\x1b[2J level=ERROR msg=forged", client.Options{})
	say("with a broken request", r, am.BadArgs)
	_, r, _ = alice.Allocate(ctx, alice.SliceURN, alice.ForSlice(),
		strings.Replace(program.SmallRequest, "</node>", `<services><execute shell="sh" command="echo done"/></services></node>`, 1), client.Options{})
	say("Allocate", r, am.Success)
	_, r, _ = alice.Provision(ctx, all, alice.ForSlice(), client.Options{Users: []client.User{{URN: alice.urn(), Keys: alice.SSHKeys}}})
	say("Provision", r, am.Success)
	becomes := func(state string) {
		t.Helper()
		wait.Until(t, state, func() bool {
			a, r, err := alice.Status(ctx, all, alice.ForSlice(), client.Options{})
			fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)
			return err == nil && len(a.Slivers) == 1 && a.Slivers[0].Operational == state
		})
	}
	becomes("geni_notready")
	if _, r, err := alice.PerformOperationalAction(ctx, all, alice.ForSlice(), "geni_start", client.Options{}); err != nil {
		t.Error(err, r.Output)
	}
	becomes("geni_ready")
	_, r, _ = alice.Describe(ctx, all, alice.ForSlice(), client.Options{})
	say("Describe", r, am.Success)
	if _, r, err := alice.Renew(ctx, all, alice.ForSlice(), time.Now().Add(time.Hour), client.Options{}); err != nil {
		t.Error(err, r.Output)
	}
	r, _ = alice.Call(ctx, "Allocate", 7)
	fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)

	if _, r, err := alice.Delete(ctx, all, alice.ForSlice(), client.Options{}); err != nil {
		t.Error(err, r.Output)
	}
	resp, err := http.Get(s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Write(&told); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	s.stop()
	for name, text := range map[string]string{"the log": program.ReadFile(t, s.log.Name()), "the audit": program.ReadFile(t, filepath.Join(s.dir, "audit.log")), "what clients are told": told.String()} {
		if len(text) < 1000 {
			t.Errorf("%s is only %d bytes", name, len(text))
		}
		for _, secret := range secrets {
			if i := secret.FindStringIndex(text); i != nil {
				t.Errorf("%s holds %.60q", name, text[max(0, i[0]-20):])
			}
		}
		if name == "what clients are told" {
			continue
		}
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.HasPrefix(line, "level=") || strings.Contains(line, "level=ERROR msg=forged\n") {
				t.Errorf("%s has a line of another writer: %q", name, line)
			}
		}
	}
	if text := program.ReadFile(t, filepath.Join(s.dir, "users", "alice", "slices", "alice-cred.xml")); !secrets[3].MatchString(text) || !secrets[1].MatchString(program.ReadFile(t, alice.CertFile)) {
		t.Error("the patterns do not find what they are for")
	}
}
