package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/wait"
	"patchbay/credentials/trial"
)

// patchbay runs the built program and gives what it wrote and its exit status.
func (s *served) patchbay(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(filepath.Join(s.bin, "patchbay"), args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// TestCallVersion2 is the life of a slice in version 2 by the program alone,
// with a server that is killed as soon as it has acknowledged CreateSliver: the
// next one makes and starts the nodes without another call.
func TestCallVersion2(t *testing.T) {
	s := newServed(t, "testbed.example.org", nil, nil)
	config := filepath.Join(s.dir, "patchbay.yaml")
	for _, args := range [][]string{{"user", "alice"}, {"slice", "s1", "--owner", "alice"}} {
		if out, errs, status := s.patchbay(append(args, "--config", config)...); status != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	// The provider's delay is long enough to be killed in, and to be seen.
	s.settings("timing: {make: 3s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	s.start()
	request := filepath.Join(t.TempDir(), "request.xml")
	if err := os.WriteFile(request, []byte(fmt.Sprintf(oneNode, "testbed.example.org")), 0o644); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) (string, string, int) {
		t.Helper()
		return s.patchbay(append([]string{"call", "--url", s.url, "--api-version", "2", "--user", filepath.Join(s.dir, "users", "alice")}, args...)...)
	}
	// good calls a method that must work, bad one that must be refused.
	good := func(args ...string) string {
		t.Helper()
		out, errs, status := call(args...)
		if status != 0 || !strings.Contains(errs, "SUCCESS (0)") {
			t.Fatalf("%v: exit status %d\n%s%s", args, status, errs, out)
		}
		return out
	}
	bad := func(code string, args ...string) {
		t.Helper()
		if out, errs, status := call(args...); status != 1 || !strings.Contains(errs, code) {
			t.Errorf("%v: exit status %d, want 1 and %s\n%s%s", args, status, code, errs, out)
		}
	}

	has(t, good("GetVersion"), "geni_api: 2", "/am/2.0", "/am/3.0")
	has(t, good("ListResources"), `type="advertisement"`, `component_name="pc1"`)
	bad("SEARCHFAILED (12)", "--slice", "s1", "SliverStatus")
	manifest := filepath.Join(t.TempDir(), "manifest.xml")
	good("--slice", "s1", "-o", manifest, "CreateSliver", request)
	sliver := regexp.MustCompile(`sliver_id="([^"]+)"`).FindStringSubmatch(readFile(t, manifest))
	if sliver == nil {
		t.Fatalf("the manifest has no sliver:\n%s", readFile(t, manifest))
	}
	checkManifest(t, readFile(t, request), readFile(t, manifest), sliver[1])
	s.kill()

	s.start()
	state := func() string {
		t.Helper()
		out := good("--slice", "s1", "SliverStatus")
		has(t, out, "NODE", "SLIVER", "STATE", "EXPIRES", sliver[1], "node0", "pg_expires: ")
		m := regexp.MustCompile(`(?m)^geni_status: (\w+)$`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("SliverStatus:\n%s", out)
		}
		return m[1]
	}
	if got := state(); got != "configuring" {
		t.Errorf("after the next start the slice is %s, want configuring", got)
	}
	wait.Until(t, "ready without an action", func() bool { return state() == "ready" })
	log := readFile(t, filepath.Join(s.dir, "providers", "simulated.state", "log"))
	_, name, _ := strings.Cut(sliver[1], "+sliver+")
	if n := strings.Count(log, `"`+name+`"`); n != 1 {
		t.Errorf("the provider was asked %d times for the sliver, want once:\n%s", n, log)
	}
	has(t, good("--slice", "s1", "ListResources"), `type="manifest"`, `<login authentication="ssh-keys"`, `username="alice"`)

	// The other version sees the same.
	out, errs, status := s.patchbay("call", "--url", s.url, "--user", filepath.Join(s.dir, "users", "alice"), "--slice", "s1", "Status")
	if status != 0 || !strings.Contains(out, "geni_ready") || !strings.Contains(out, sliver[1]) {
		t.Errorf("Status of version 3: exit status %d\n%s%s", status, errs, out)
	}
	bad("ALREADYEXISTS (17)", "--slice", "s1", "CreateSliver", request)

	end := time.Now().Add(30 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	has(t, good("--slice", "s1", "RenewSliver", end), "true")
	has(t, good("--slice", "s1", "SliverStatus"), "pg_expires: "+end)
	bad("REFUSED (7)", "--slice", "s1", "RenewSliver", "9000h")
	out, errs, _ = call("--slice", "s1", "--option", "geni_extend_alap=true", "RenewSliver", "9000h")
	if !strings.Contains(out, "true") || !regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(errs) {
		t.Errorf("as long as possible: %s%s", errs, out)
	}

	has(t, good("--slice", "s1", "DeleteSliver"), "true")
	bad("SEARCHFAILED (12)", "--slice", "s1", "DeleteSliver")
	wait.Until(t, "all is free", func() bool { return !strings.Contains(good("ListResources"), `now="false"`) })

	good("--slice", "s1", "CreateSliver", request)
	has(t, good("--slice", "s1", "Shutdown"), "true")
	has(t, good("--slice", "s1", "SliverStatus"), "geni_status: shutdown")
	bad("FORBIDDEN (3)", "--slice", "s1", "DeleteSliver")
	s.stop()
}

// TestCallSpeaksFor lets a tool act for a user, in both versions: with the
// credential that permits it and the user named, and not without either.
func TestCallSpeaksFor(t *testing.T) {
	s := newServed(t, "testbed.example.org", nil, nil)
	config := filepath.Join(s.dir, "patchbay.yaml")
	for _, args := range [][]string{{"user", "alice"}, {"slice", "s1", "--owner", "alice"}} {
		if out, errs, status := s.patchbay(append(args, "--config", config)...); status != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	authority, err := trial.Open(filepath.Join(s.dir, site.AuthorityDir))
	if err != nil {
		t.Fatal(err)
	}
	alice, err := authority.User("alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tool, err := authority.Tool("portal", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	permit, err := trial.SpeaksFor(alice, tool.Certificate, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	dir, home := t.TempDir(), filepath.Join(s.dir, "users", "alice")
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, key, speaks := write("portal-cert.pem", tool.Certificate), write("portal-key.pem", tool.Key), write("speaks.xml", permit)
	request := write("request.xml", fmt.Appendf(nil, oneNode, "testbed.example.org"))
	s.settings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	s.start()
	call := func(version string, args ...string) (string, string, int) {
		t.Helper()
		return s.patchbay(append([]string{"call", "--url", s.url + "/am/" + version, "--user", cert, "--user", key,
			"--user", filepath.Join(home, "id_ed25519.pub"), "--slice", filepath.Join(home, "slices", "s1-cred.xml")}, args...)...)
	}
	speaking := []string{"--credential", speaks, "--speaking-for", alice.URN.String()}
	for version, methods := range map[string][][]string{
		"2.0": {{"CreateSliver", request}, {"SliverStatus"}, {"RenewSliver", "30m"}, {"ListResources"}, {"DeleteSliver"}},
		"3.0": {{"Allocate", request}, {"Provision"}, {"Status"}, {"Describe"}, {"Delete"}},
	} {
		for _, method := range methods {
			for what, some := range map[string][]string{"the credential": speaking[2:], "the user's name": speaking[:2]} {
				if _, errs, status := call(version, slices.Concat(some, method)...); status != 1 || !strings.Contains(errs, "FORBIDDEN (3)") {
					t.Errorf("%s without %s: exit status %d, %s", method[0], what, status, errs)
				}
			}
			out, errs, status := call(version, slices.Concat(speaking, method)...)
			if status != 0 {
				t.Fatalf("%s: exit status %d, %s", method[0], status, errs)
			}
			if method[0] == "CreateSliver" || method[0] == "Provision" { // the account is the user's, not the tool's
				has(t, out, `login="alice"`)
			}
		}
	}
	s.stop()
}
