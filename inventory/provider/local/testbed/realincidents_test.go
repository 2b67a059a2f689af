package testbed

import (
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
)

// A real ready node reports a stopped PID 1, an out-of-memory kill and a killed PID 1.
func TestRealIncidentsAreReported(t *testing.T) {
	s := newSite(t, "testbed-r9", 42900)
	name := nodeName(9)
	s.set(map[string]provider.Resource{name: s.newNode("n", "alice")})
	door := s.awaitSettled(name)[name]
	pid := func() int {
		var list local.List
		s.call("list", nil, &list)
		return list.Nodes[0].PID
	}
	says := func(text string) {
		t.Helper()
		var r observedNode
		wait.Holds(t, func() bool {
			r = s.get(name)[name]
			return r.State == "ready" && strings.Contains(r.Message, text) && (text != "" || r.Message == "")
		}, func() string { return "it is " + r.State + " and says " + r.Message })
	}
	first := pid()
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	says("does not answer")
	if err := syscall.Kill(first, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	says("")
	if out, err := s.ssh(door, "alice", "head -c 1G /dev/zero | tail"); err == nil {
		t.Errorf("a command with more memory than the node has ended well: %q", out)
	}
	says("1 process was ended")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	says("its system ended unexpectedly")
	says("1 process was ended")
	s.set(map[string]provider.Resource{name: {"restart_serial": "1"}})
	says("")
	if pid() == first {
		t.Error("it was not restarted")
	}
}
