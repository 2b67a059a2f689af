package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/audit"
	"patchbay/am/client"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// auditUser is a user of a site's trial authority, with a slice.
type auditUser struct {
	*client.Client
	*caller
	home string
}

func (in *auditUser) urn() string {
	return "urn:publicid:IDN+testbed.example.org+user+" + filepath.Base(in.home)
}

// createUser creates a user with a slice of the same name.
func (s *servedSite) createUser(name string) {
	s.t.Helper()
	for _, args := range [][]string{{"user", name}, {"slice", name, "--owner", name}} {
		if code, out := runCommand(s.t, append(args, "--config", s.dir)...); code != 0 {
			s.t.Fatal(out)
		}
	}
}

func (s *servedSite) newAuditUser(name string) *auditUser {
	s.t.Helper()
	in := &auditUser{home: filepath.Join(s.dir, "users", name)}
	var err error
	if in.caller, err = readCaller([]string{in.home}, name); err != nil {
		s.t.Fatal(err)
	}
	if in.Client, err = client.New(client.Config{URL: s.url + "/am/3.0", CertFile: in.certFile, KeyFile: in.keyFile}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(in.Close)
	return in
}

// auditLines returns the lines of the site's audit and of its rotated files.
func (s *servedSite) auditLines() (all []audit.Line) {
	s.t.Helper()
	files, err := audit.Files(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			s.t.Fatal(err)
		}
		var text io.Reader = f
		if filepath.Ext(name) == ".gz" {
			if text, err = gzip.NewReader(f); err != nil {
				s.t.Fatal(err)
			}
		}
		for in := bufio.NewScanner(text); in.Scan(); {
			var l audit.Line
			if json.Unmarshal(in.Bytes(), &l) == nil { // otherwise a crash has cut it off
				all = append(all, l)
			}
		}
		f.Close()
	}
	return all
}

// TestAuditAfterCrashes kills the server repeatedly while it works. At the end each
// stored change, and each change reported to a client, has exactly one line in the audit.
func TestAuditAfterCrashes(t *testing.T) {
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	const workers, crashes = 4, 6
	for i := range workers {
		s.createUser(fmt.Sprint("u", i))
	}
	var done atomic.Int64 // changes reported to clients
	for n := range crashes {
		s.start()
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		for i := range workers {
			in := s.newAuditUser(fmt.Sprint("u", i))
			working.Go(func() {
				for ctx.Err() == nil {
					if _, r, err := in.Allocate(ctx, in.sliceURN, in.forSlice(), soakRequest, client.Options{}); err == nil && r.Code == am.Success {
						done.Add(1)
					}
					for range 3 { // the journal joins equal ones
						if _, r, err := in.Renew(ctx, []string{in.sliceURN}, in.forSlice(), time.Now().Add(time.Hour), client.Options{}); err == nil && r.Code == am.Success {
							done.Add(1)
						}
					}
					if _, r, err := in.Delete(ctx, []string{in.sliceURN}, in.forSlice(), client.Options{}); err == nil && r.Code == am.Success {
						done.Add(1)
					}
				}
			})
		}
		before := done.Load()
		wait.Until(t, "calls", func() bool { return done.Load() > before+int64(workers) })
		time.Sleep(rand.N(200 * time.Millisecond))
		s.kill()
		stop()
		working.Wait()
		t.Logf("killed for the %d. time after %d changes", n+1, done.Load())
	}
	s.start() // completes the audit
	s.stop()

	state, err := store.Open(filepath.Join(s.dir, "state.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	lines, recovered, calls := map[string]int{}, 0, int64(0)
	for _, l := range s.auditLines() {
		for _, id := range l.Journal {
			lines[id]++
		}
		if l.Recovered {
			recovered++
		}
		if l.Event == "call" && *l.Code == 0 {
			calls++
			if l.Caller == "" || l.Slice == "" || l.Method == "" || l.Remote == "" || len(l.Credentials) != 1 || l.Slivers != 1 {
				t.Errorf("a call's line says too little: %+v", l)
			}
		}
	}
	entries, changes, joined := 0, 0, 0
	err = state.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			entries++
			changes += max(1, e.Times)
			joined += max(0, e.Times-1)
			if lines[e.ID] != 1 {
				t.Errorf("%s of %s (%s) has %d lines", e.Event, e.Slice, e.ID, lines[e.ID])
			}
			return true
		})
	})
	if err != nil || changes != len(lines) || joined == 0 {
		t.Errorf("the journal has %d entries of %d changes, %d of them joined; the audit has %d, %v", entries, changes, joined, len(lines), err)
	}
	if calls < done.Load() {
		t.Errorf("clients were told of %d changes, the audit of %d", done.Load(), calls)
	}
	t.Logf("%d entries, %d of them written at the next start", entries, recovered)
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
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	edit(t, filepath.Join(s.dir, "patchbay.yaml"), "# log:\n#   format: text          # or json\n#   level: info ", "log:\n  level: debug ")
	s.createUser("alice")
	s.createUser("attacker")
	s.start()
	alice, attacker := s.newAuditUser("alice"), s.newAuditUser("attacker")
	ctx, all := t.Context(), []string{alice.sliceURN}
	var told strings.Builder
	say := func(what string, r client.Reply, want am.Code) {
		t.Helper()
		if r.Code != want {
			t.Errorf("%s: %d %s, want %d", what, r.Code, r.Output, want)
		}
		fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)
	}
	_, r, _ := attacker.Allocate(ctx, alice.sliceURN, alice.forSlice(), soakRequest, client.Options{})
	say("with another's credential", r, am.Forbidden)
	forged := []client.Credential{{Text: strings.Replace(alice.forSlice()[0].Text, "alice", "bob", 1) + "\n\x1b[31m"}}
	_, r, _ = alice.Allocate(ctx, alice.sliceURN, forged, soakRequest, client.Options{})
	say("with a forged credential", r, am.Forbidden)
	_, r, _ = alice.Allocate(ctx, alice.sliceURN, alice.forSlice(), "<rspec\n\x1b[2J level=ERROR msg=forged", client.Options{})
	say("with a broken request", r, am.BadArgs)
	_, r, _ = alice.Allocate(ctx, alice.sliceURN, alice.forSlice(),
		strings.Replace(soakRequest, "</node>", `<services><execute shell="sh" command="echo done"/></services></node>`, 1), client.Options{})
	say("Allocate", r, am.Success)
	_, r, _ = alice.Provision(ctx, all, alice.forSlice(), client.Options{Users: []client.User{{URN: alice.urn(), Keys: alice.sshKeys}}})
	say("Provision", r, am.Success)
	becomes := func(state string) {
		t.Helper()
		wait.Until(t, state, func() bool {
			a, r, err := alice.Status(ctx, all, alice.forSlice(), client.Options{})
			fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)
			return err == nil && len(a.Slivers) == 1 && a.Slivers[0].Operational == state
		})
	}
	becomes("geni_notready")
	if _, r, err := alice.PerformOperationalAction(ctx, all, alice.forSlice(), "geni_start", client.Options{}); err != nil {
		t.Error(err, r.Output)
	}
	becomes("geni_ready")
	_, r, _ = alice.Describe(ctx, all, alice.forSlice(), client.Options{})
	say("Describe", r, am.Success)
	if _, r, err := alice.Renew(ctx, all, alice.forSlice(), time.Now().Add(time.Hour), client.Options{}); err != nil {
		t.Error(err, r.Output)
	}
	r, _ = alice.Call(ctx, "Allocate", 7)
	fmt.Fprintf(&told, "%v %s\n", r.Value, r.Output)

	t.Run("Who", func(t *testing.T) { s.checkWho(t, alice) })

	if _, r, err := alice.Delete(ctx, all, alice.forSlice(), client.Options{}); err != nil {
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
	for name, text := range map[string]string{"the log": readFile(t, s.log.Name()), "the audit": readFile(t, filepath.Join(s.dir, "audit.log")), "what clients are told": told.String()} {
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
				t.Errorf("%s has a line that somebody else has written: %q", name, line)
			}
		}
	}
	if text := readFile(t, filepath.Join(s.dir, "users", "alice", "slices", "alice-cred.xml")); !secrets[3].MatchString(text) || !secrets[1].MatchString(readFile(t, alice.certFile)) {
		t.Error("the patterns do not find what they are for")
	}

	var got []string
	for _, l := range s.auditLines() {
		if l.Event == "call" {
			got = append(got, fmt.Sprint(l.Method, " ", *l.Code, " ", l.Slivers, " ", len(l.Credentials), " ", strings.TrimPrefix(l.Caller, "urn:publicid:IDN+testbed.example.org+user+")))
		}
	}
	want := []string{
		"Allocate 3 0 1 attacker", "Allocate 3 0 1 alice", "Allocate 1 0 1 alice", "Allocate 0 1 1 alice", "Provision 0 1 1 alice", "PerformOperationalAction 0 1 1 alice", "Renew 0 1 1 alice",
		"Allocate -32602 0 0 ", "Delete 0 1 1 alice",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit tells of the calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkWho runs patchbay who beside the server, about alice's node.
func (s *servedSite) checkWho(t *testing.T, alice *auditUser) {
	who := func(args ...string) (int, string) {
		c := exec.Command(filepath.Join(s.bin, "patchbay"), append([]string{"who", "--config", s.dir}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), string(out)
	}
	var held audit.Line
	wait.Until(t, "a door", func() bool {
		for _, l := range s.auditLines() {
			if l.Event == "holds" && len(l.Doors) > 0 {
				held = l
			}
		}
		return held.Sliver != ""
	})
	since, err := time.Parse(time.RFC3339, held.At)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule string
		args []string
		code int
		want []string
	}{
		{"by address, now", []string{held.Addresses[0]}, 0, []string{"slice        " + alice.sliceURN, "user         " + alice.urn(), "sliver       " + held.Sliver, "until        now", "Allocate, request ", "SHA-256 "}},
		{"by door", []string{held.Doors[0]}, 0, []string{"as           " + held.Doors[0]}},
		{"at the very moment", []string{held.Doors[0], "--at", held.At}, 0, []string{held.Sliver}},
		{"before", []string{held.Addresses[0], "--at", since.Add(-time.Hour).In(time.FixedZone("", 3600)).Format("2006-01-02 15:04 -0700")}, 1, []string{"No sliver had", "The audit covers", "before that", "The first sliver after", held.Sliver}},
		{"nobody", []string{"203.0.113.9:80"}, 1, []string{"No sliver had 203.0.113.9:80", "leave out the port"}},
		{"as JSON", []string{held.Addresses[0], "--json"}, 0, []string{`"user": "` + alice.urn() + `"`, `"credentials": [`}},
		{"from a file", []string{held.Addresses[0], filepath.Join(s.dir, "audit.log")}, 0, []string{held.Sliver}},
	} {
		code, out := who(c.args...)
		if code != c.code {
			t.Errorf("%s: exit status %d, want %d", c.rule, code, c.code)
		}
		wantTexts(t, out, c.want...)
	}
	for _, args := range [][]string{{}, {"a b"}, {"192.0.2.1", "--at", "2026-11-20 14:05"}, {"192.0.2.1", "--at", "9999-01-01T00:00:00Z"}, {"192.0.2.1", "--at", "yesterday"}} {
		if code, out := who(args...); code != 2 {
			t.Errorf("who %q: exit status %d\n%s", args, code, out)
		}
	}
}
