package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local"
)

// twoLinked requests two nodes with a link.
const twoLinked = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
  <node client_id="left"><sliver_type name="vm"/><interface client_id="left:0"><ip address="10.0.9.1" netmask="255.255.255.0"/></interface></node>
  <node client_id="right"><sliver_type name="vm"/><interface client_id="right:0"><ip address="10.0.9.2" netmask="255.255.255.0"/></interface></node>
  <link client_id="between"><interface_ref client_id="left:0"/><interface_ref client_id="right:0"/></link>
</rspec>`

// acrossLink prints the address and the host name of the node right, over the link.
const acrossLink = `getent hosts right | cut -d ' ' -f 1; ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR right hostname`

// hostState returns everything on this host that belongs to the site.
func (s *localSite) hostState() hoststate.State {
	s.t.Helper()
	c, err := hoststate.Take(hoststate.Options{Only: []string{s.instance, s.dir}, Roots: []string{"/run/patchbay-local", "/var/lib/patchbay-local"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// createUsers creates alice and their slices.
func (s *localSite) createUsers(slices ...string) {
	s.t.Helper()
	s.runOK("user", "alice")
	for _, name := range slices {
		s.runOK("slice", name, "--owner", "alice")
	}
}

// runOK runs an operator's command, which must succeed, and returns its output.
func (s *localSite) runOK(args ...string) string {
	s.t.Helper()
	code, out := runCommand(s.t, append(args, "--config", s.dir)...)
	if code != 0 {
		s.t.Fatalf("%q: exit status %d\n%s", args, code, out)
	}
	return out
}

// runRefused runs a command that must fail with status 1, and returns its output.
func (s *localSite) runRefused(args ...string) string {
	s.t.Helper()
	code, out := runCommand(s.t, append(args, "--config", s.dir)...)
	if code != 1 {
		s.t.Fatalf("%q: exit status %d\n%s", args, code, out)
	}
	return out
}

// asAlice makes a call as alice about a slice, and returns exit status and output.
func (s *localSite) asAlice(slice string, args ...string) (int, string) {
	s.t.Helper()
	return runCommand(s.t, append([]string{"call", "--url", s.url, "--user", filepath.Join(s.dir, "users", "alice"), "--slice", slice, "--urns"}, args...)...)
}

// awaitLogin waits until alice can log in.
func (s *localSite) awaitLogin(l login) {
	s.t.Helper()
	var err error
	defer func() {
		if s.t.Failed() {
			s.t.Log(err)
		}
	}()
	wait.Until(s.t, "the door of "+l.node+" opens", func() bool {
		_, err = s.ssh("alice", l, "true")
		return err == nil
	})
}

// wantFrozen waits until all slivers of a slice are frozen and stopped, and their nodes
// too.
func (s *localSite) wantFrozen(slice string, nodes ...string) {
	s.t.Helper()
	wait.Until(s.t, slice+" is off", func() bool {
		return strings.Count(s.runOK("slivers", slice), "frozen, notready") == len(nodes)
	})
	list := s.local("list")
	for _, node := range nodes {
		if !regexp.MustCompile(`(?m)^.*\b` + node + `\b.*\boff\b`).MatchString(list) {
			s.t.Errorf("node %s of slice %s is not off:\n%s", node, slice, list)
		}
	}
}

// TestOnHostShutdown is TestShutdown with real nodes, a link and an open login: all of
// these end, also across crashes of server and testbed. When an operator thaws the slice,
// the disks are unchanged. Another slice is shut down while it is created, and then
// released: nothing of it is left.
func TestOnHostShutdown(t *testing.T) {
	s := newLocalSite(t, "frozen.example.org")
	before := s.hostState()
	s.createUsers("first", "second")
	request := filepath.Join(t.TempDir(), "linked.xml")
	write(t, request, twoLinked)
	s.start()
	s.createNodes(request, 2)
	doors := s.logins()
	left, right := doors["left"], doors["right"]
	s.wantOutput("alice", left, acrossLink, "10.0.9.2\nright\n")
	s.wantOutput("alice", left, "echo evidence > note; sync", "")
	session := s.session(t.Context(), "alice", left, "sleep 1000")
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	wait.Until(t, "somebody is logged in", func() bool {
		out, err := s.ssh("alice", left, "pgrep -c sleep || true")
		return err == nil && strings.TrimSpace(out) == "1"
	})

	s.call("Shutdown")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the session of a node that was shut down ends well")
		}
	case <-time.After(time.Minute):
		t.Error("the session of a node that was shut down goes on")
	}
	s.wantFrozen("first", "left", "right")
	shut := func() {
		t.Helper()
		for _, door := range []login{left, right} {
			if _, err := s.ssh("alice", door, "true"); err == nil {
				t.Errorf("the door of %s is open", door.node)
			}
		}
	}
	shut()
	for _, args := range [][]string{
		{"Allocate", request}, {"Provision"}, {"Renew", "1h"}, {"PerformOperationalAction", "start"}, {"PerformOperationalAction", "update_users"},
		{"Delete"}, {"Status"}, {"Describe"},
	} {
		code, out := s.asAlice("first", args...)
		if code == 0 || !strings.Contains(out, "was shut down at ") || !strings.Contains(out, "only the operators of this aggregate can end the shutdown") {
			t.Errorf("%v of a frozen slice: exit status %d\n%s", args, code, out)
		}
	}

	// Another slice is shut down before its nodes are ready.
	for _, args := range [][]string{{"CreateSliver", filepath.Join(s.dir, "request.xml")}, {"Shutdown"}} {
		if code, out := s.asAlice("second", append([]string{"--api-version", "2"}, args...)...); code != 0 {
			t.Fatal(out)
		}
	}
	if code, out := s.asAlice("second", "--api-version", "2", "SliverStatus"); code != 0 || !strings.Contains(out, "geni_status: shutdown") {
		t.Errorf("SliverStatus of a frozen slice: exit status %d\n%s", code, out)
	}
	s.wantFrozen("second", "server", "client")

	// A crash of server and testbed gives no access.
	s.kill()
	wait.Until(t, "the testbed ends with the server", func() bool {
		return !(&site.Testbed{Instance: s.instance}).Runs(t.Context(), local.Socket)
	})
	s.start()
	wait.Until(t, "the testbed runs", func() bool { return (&site.Testbed{Instance: s.instance}).Runs(t.Context(), local.Socket) })
	s.wantFrozen("first", "left", "right")
	s.wantFrozen("second", "server", "client")
	shut()

	// The lists of operators.
	wantTexts(t, s.runOK("slices", "--shutdown"), "first", "second", "shut down, 2 notready", "alice")
	wantTexts(t, s.runOK("slivers", "--slice", "first"), "left", "right", "frozen, notready")
	wantTexts(t, s.runOK("manifest", "first"), `client_id="left"`, `client_id="between"`, `address="10.0.9.2"`, `type="manifest"`)
	wantTexts(t, s.runOK("journal", "--event", "Shutdown"), "first", "second", "alice")
	wantTexts(t, s.runRefused("release", "second"), "was shut down", "--frozen")

	// Thawed: login, keys, disk and link are as before.
	wantTexts(t, s.runOK("thaw", "first", "--reason", "all is well"), "no longer shut down; it has 2 slivers", "The nodes are off")
	s.await("geni_notready", 2)
	shut()
	s.call("PerformOperationalAction", "start")
	s.await("geni_ready", 2)
	if again := s.logins(); again["left"] != left || again["right"] != right {
		t.Errorf("the doors were %v and are %v", doors, again)
	}
	s.awaitLogin(left)
	s.wantOutput("alice", left, "cat note; "+acrossLink, "evidence\n10.0.9.2\nright\n")

	// The other slice is released.
	wantTexts(t, s.runOK("release", "second", "--frozen", "--reason", "looked into"), "Released: 2 slivers", "stays shut down")
	wait.Until(t, "its nodes are gone", func() bool {
		list := s.local("list")
		return !strings.Contains(list, "client") && !strings.Contains(list, "server")
	})
	if code, out := s.asAlice("second", "Allocate", request); code == 0 || !strings.Contains(out, "was shut down") {
		t.Errorf("Allocate in a slice that stays shut down: exit status %d\n%s", code, out)
	}
	s.wantOutput("alice", left, acrossLink, "10.0.9.2\nright\n")
	s.call("Delete")
	wait.Until(t, "the nodes are gone", func() bool { return !strings.Contains(s.local("list"), "left") })
	s.stop()
	s.local("clean")
	hoststate.Await(t, before, time.Minute)
}
