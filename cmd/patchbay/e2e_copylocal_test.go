package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/store"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local"
)

// TestOnHostTwoServersDoNotActOnTheSameTestbed serves a site with real nodes and a copy
// of it, whose providers name the same testbed. Neither the copy nor a copy that was
// moved too early changes a node. After the server was killed, the moved copy continues
// with the nodes.
func TestOnHostTwoServersDoNotActOnTheSameTestbed(t *testing.T) {
	s := newLocalSite(t, "copied.example.org")
	before := s.hostState()
	s.createUsers("first")
	s.start()
	s.createNodes(filepath.Join(s.dir, "request.xml"), 2)
	door := s.logins()["server"]
	s.wantOutput("alice", door, "nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pid", "")
	s.runOK("renew", "first", "--for", "10s")
	staging := filepath.Join(t.TempDir(), "staging")
	if err := execute("cp", "-a", s.dir, staging); err != nil {
		t.Fatal(err)
	}
	s.runOK("renew", "first", "--for", "3h")
	alive := func() {
		t.Helper()
		if out := s.call("Status"); strings.Count(out, "geni_ready") != 2 {
			t.Errorf("the nodes of the served site:\n%s", out)
		}
		s.wantOutput("alice", door, "kill -0 $(cat pid) && echo alive", "alive\n")
	}

	wantTexts(t, serveRefused(t, staging), "it is a copy", "patchbay move --config "+staging)
	alive()
	at := func(args ...string) string {
		t.Helper()
		code, out := runCommand(t, append(args, "--config", staging)...)
		if code != 0 {
			t.Fatalf("%q: %d\n%s", args, code, out)
		}
		return out
	}
	// As move does if the server runs on another machine.
	early, err := store.Open(filepath.Join(staging, "state.db"), store.Options{Site: "copied.example.org", Move: true})
	if err == nil {
		err = early.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, serveRefused(t, staging), "another server (process "+strconv.Itoa(s.cmd.Process.Pid)+": ", "serve --config "+filepath.Join(s.dir, site.ConfigName), ") acts on the nodes of the local testbed "+s.instance)
	alive()

	s.kill()
	at("renew", "first", "--for", "3h")
	live := s.dir
	s.dir = staging
	defer func() { s.kill(); s.dir = live }()
	s.start()
	s.await("geni_ready", 2)
	wait.Until(t, "a login by the moved server", func() bool { _, err := s.ssh("alice", door, "true"); return err == nil })
	alive()
	wantTexts(t, serveRefused(t, live), "acts on the nodes of the local testbed")
	s.call("Delete")
	wait.Until(t, "all is given back", func() bool { return !strings.Contains(s.runOK("slivers"), "first") })
	s.stop()
	s.local("clean")
	if _, err := os.Lstat(local.SiteLock(local.Socket(s.instance))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("clean has left the lock: %v", err)
	}
	hoststate.Await(t, before, time.Minute)
}
