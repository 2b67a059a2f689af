package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/xmlrpc"
)

// fileSize returns the size of a file of the site.
func (s *servedSite) fileSize(name string) int64 {
	s.t.Helper()
	info, err := os.Stat(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Size()
}

// junkDelete returns a Delete of a slice with a long name and 32 invalid credentials.
func junkDelete(t testing.TB) string {
	t.Helper()
	junk := make([]client.Credential, 32)
	for i := range junk {
		junk[i] = client.Credential{Text: strings.Repeat("x", i+1)}
	}
	slice := "urn:publicid:IDN+testbed.example.org+slice+"
	slice += strings.Repeat("s", 255-len(slice))
	return encoded(t, "Delete", []xmlrpc.Value{slice}, client.Credentials(junk), xmlrpc.Struct{})
}

// wantFewLogs fails if audit and log have grown by more than 50 kB since before.
func (s *servedSite) wantFewLogs(calls int, before int64) {
	s.t.Helper()
	grown := s.fileSize("audit.log") + s.fileSize("log") - before
	s.t.Logf("%d calls have audit and log grow by %d bytes", calls, grown)
	if grown >= 50<<10 {
		s.t.Errorf("audit and log have grown by %d bytes, want less than 50 kB", grown)
	}
}

// TestChangesAreRateLimited has a user send changing calls without pause, all of which
// are refused. Beyond the burst the answer is to come back later, and calls have no line
// each.
func TestChangesAreRateLimited(t *testing.T) {
	const calls, burst = 400, 5
	t.Setenv(envBurst, fmt.Sprint(burst))
	t.Setenv("PATCHBAY_LIMITS_MAX_CHANGES_PER_MINUTE", "1")
	s := newClientTestSite(t, "")
	attacker, alice := s.newClient(t, "attacker", 3), s.newClient(t, "alice", 3)
	slice, cred, _ := alice.slice("s", 2)
	before := s.fileSize("audit.log") + s.fileSize("log")
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{Certificates: []tls.Certificate{attacker.identity}, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := post("/am/3.0", junkDelete(t))
	refused, busy := 0, 0
	for range calls {
		_, answer, err := exchange(c, body)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(string(answer), "<int>-32001</int>") && strings.Contains(string(answer), "5 are allowed at once, and then 1 a minute; try again later"):
			busy++
		case strings.Contains(string(answer), "<int>3</int>"):
			refused++
		default:
			t.Fatalf("%s", answer)
		}
	}
	if refused < burst || busy == 0 {
		t.Errorf("of %d calls %d are worked on and %d told to come back; want %d, and few more as time goes by", calls, refused, busy, burst)
	}
	attacker.want("ListResources", am.Success, attacker.creds(string(attacker.Credential)), rspec3("GENI")) // reading calls do not count
	alice.want("Allocate", am.Success, slice, alice.creds(cred), soakRequest, xmlrpc.Struct{})
	alice.want("Delete", am.Success, urns(slice), alice.creds(cred), xmlrpc.Struct{})
	s.stop()

	s.wantFewLogs(calls, before)
}
