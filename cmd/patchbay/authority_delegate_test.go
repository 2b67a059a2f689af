package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
)

// TestHandingOn lets one user work in another's slice, and a tool speak for a
// user, against a server that knows the trial authority alone.
func TestHandingOn(t *testing.T) {
	dir := made(t)
	do := func(want int, args ...string) string {
		t.Helper()
		code, out := tell(t, append(args, "--config", dir)...)
		if code != want {
			t.Fatalf("%s: %d\n%s", strings.Join(args, " "), code, out)
		}
		return out
	}
	do(0, "user", "ann")
	do(0, "user", "bob")
	do(0, "slice", "first", "--owner", "ann")
	do(0, "slice", "FIRST", "--owner", "ANN") // again
	has(t, do(1, "slice", "First", "--owner", "bob"), "ann has the slice First", "delegate First --from ann --to bob", "--another-owner")
	has(t, do(1, "delegate", "second", "--from", "ann", "--to", "bob"), "slice second --owner ann")
	has(t, do(1, "delegate", "first", "--from", "eve", "--to", "bob"), "user eve")
	has(t, do(1, "delegate", "first", "--from", "ann", "--to", "nobody"), "nobody")
	for _, of := range [][]string{{"slice", "first", "--owner", "ann"}, {"delegate", "first", "--from", "ann", "--to", "bob"}, {"tool", "late", "--for", "ann"}} {
		has(t, do(2, append(of, "--expires", "0s")...), "no time at all")
		has(t, do(1, append(of, "--expires", "99999d")...), "too long", "the longest is 36")
	}
	if _, err := os.Stat(filepath.Join(dir, "tools", "late")); err == nil {
		t.Error("a tool was made by a command that failed")
	}
	has(t, do(0, "delegate", "FIRST", "--from", "ann", "--to", "bob"), "users/bob/slices/first-cred.xml", "call")
	do(0, "delegate", "first", "--from", "ann", "--to", "BOB", "--expires", "1h") // again
	lent := readFile(t, filepath.Join(dir, "users", "bob", "slices", "first-cred.xml"))
	has(t, do(1, "slice", "first", "--owner", "bob"), "ann has the slice first", "--another-owner") // what is lent makes no owner
	if readFile(t, filepath.Join(dir, "users", "bob", "slices", "first-cred.xml")) != lent {
		t.Error("the credential that was lent is replaced")
	}
	has(t, do(1, "delegate", "first", "--from", "bob", "--to", "ann"), "-o FILE") // ann has her own
	has(t, do(0, "tool", "portal", "--for", "ann"), "portal-cert.pem", "for-ann.xml", "--speaking-for")

	s := serve(t, dir)
	request := filepath.Join(t.TempDir(), "request.xml")
	if err := os.WriteFile(request, []byte(demoRequest), 0o644); err != nil {
		t.Fatal(err)
	}
	call := func(want int, args ...string) string {
		t.Helper()
		code, out := tell(t, append([]string{"call", "--url", s.url}, args...)...)
		if code != want {
			t.Fatalf("%s: %d\n%s", strings.Join(args, " "), code, out)
		}
		return out
	}
	users, portal := filepath.Join(dir, "users"), filepath.Join(dir, "tools", "portal")
	bob := filepath.Join(users, "bob")
	call(0, "--user", bob, "--slice", "first", "Allocate", request)
	has(t, call(0, "--user", filepath.Join(users, "ann"), "--slice", "first", "Status"), "geni_allocated")

	speaking := []string{
		"--user", portal, "--speaking-for", "urn:publicid:IDN+testbed.example.org+user+ann",
		"--user", filepath.Join(users, "ann", "ann-usercred.xml"), "--slice", filepath.Join(users, "ann", "slices", "first-cred.xml"),
	}
	permit := []string{"--credential", filepath.Join(portal, "for-ann.xml")}
	has(t, call(1, append(speaking, "Delete")...), "FORBIDDEN (3)")
	call(0, append(append(speaking, permit...), "Delete")...)
	wait.Until(t, "who spoke is in the log", func() bool {
		out := s.out.String()
		return strings.Contains(out, "speaker=urn:publicid:IDN+testbed.example.org+tool+portal") && strings.Contains(out, "caller=urn:publicid:IDN+testbed.example.org+user+ann")
	})
	has(t, call(1, "--user", bob, "--slice", "first", "Status"), "SEARCHFAILED (12)")
}
