package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

// initProcess returns the id of a node's first process, as its host sees it.
func (b *bed) initProcess(name string) int {
	b.t.Helper()
	var state struct{ Pid int }
	if err := json.Unmarshal([]byte(b.lxc(b.members[0], "query", "/1.0/instances/pb-"+name+"/state?project=patchbay")), &state); err != nil || state.Pid == 0 {
		b.t.Fatalf("the state of %s: %v", name, err)
	}
	return state.Pid
}

// Steps of the first node of testChanges. The last one of a setup is replaced.
const (
	firstStep = `{"kind":"execute","shell":"sh","command":"echo first >>/etc/steps","stage":1}`
	oldStep   = `{"kind":"execute","shell":"sh","command":"echo old >>/etc/steps; sleep 1000","stage":2}`
	newStep   = `{"kind":"execute","shell":"sh","command":"echo new >>/etc/steps","stage":2}`
)

// withSteps sets the steps of an update.
func withSteps(update map[string]any, steps ...string) map[string]any {
	should := update["should"].(map[string]any)
	should["setup"], should["setup_stage"] = steps, "9"
	return update
}

// beginChanges makes the nodes of testChanges. A running step keeps the first one from being ready for half a
// minute, in which the test has other work.
func beginChanges(b *bed) {
	member := b.hostname()
	b.set(withSteps(b.node(id(1), member, lanLink(1, 0)), firstStep, oldStep), b.node(id(2), member, lanLink(2, 0)), b.node(id(3), member))
}

// lanLink is the interface of a node with this number.
func lanLink(n, capacity int) link {
	return link{"lan", "one", fmt.Sprintf("10.128.0.%d/24", n), capacity}
}

// testChanges changes the nodes of beginChanges in place; each kind of change keeps the first process of each node.
func testChanges(t *testing.T, b *bed) {
	member := b.hostname()
	serial := 0
	nodes := b.await(id(1), id(2), id(3))
	var before []int
	for _, n := range nodes {
		before = append(before, b.initProcess(n.Name))
	}
	wait.Until(t, "the second step does not run", func() bool {
		out, err := b.trySSH("root", nodes[0], "cat /etc/steps")
		return err == nil && strings.Contains(out, "old")
	})
	limits := func(name string) string {
		out, _ := b.try(b.members[0].with("lxc", "config", "device", "get", "--project", "patchbay", "pb-"+name, "eth1", "limits.ingress")...)
		return strings.TrimSpace(out)
	}
	carryOut := func(killed bool, updates ...map[string]any) {
		t.Helper()
		serial++
		for _, u := range updates {
			u["should"].(map[string]any)["change_serial"] = fmt.Sprint(serial)
			b.set(u) // each by its own call, as the server may do
			if killed {
				time.Sleep(time.Duration(serial*70) * time.Millisecond)
				b.killWorkers()
			}
		}
		begin := time.Now()
		b.await(id(1), id(2), id(3))
		t.Logf("change %d took %.1f s", serial, time.Since(begin).Seconds())
		for k, n := range nodes {
			if now := b.initProcess(n.Name); now != before[k] {
				t.Errorf("change %d: the first process of node %d was %d, and is %d", serial, k+1, before[k], now)
			}
		}
	}
	ping := func(from int, address string, works bool) {
		t.Helper()
		if _, err := b.trySSH("root", nodes[from-1], "ping -c 1 -W 2 "+address); (err == nil) != works {
			t.Errorf("node %d reaches %s: %t, want %t", from, address, err == nil, works)
		}
	}
	for _, killed := range []bool{false, true} {
		// The capacity changes on both nodes.
		carryOut(killed, withSteps(b.node(id(1), member, lanLink(1, 20_000)), firstStep, oldStep), b.node(id(2), member, lanLink(2, 20_000)))
		for _, n := range []int{1, 2} {
			if got := limits(id(n)); got != "20000kbit" {
				t.Errorf("node %d has the limit %q", n, got)
			}
		}
		// A node joins.
		carryOut(killed, b.node(id(3), member, lanLink(3, 20_000)))
		ping(3, "10.128.0.1", true)
		ping(2, "10.128.0.3", true)
		b.ssh("root", nodes[0], "cat /proc/1/comm") // its login is as before
		// Three nodes change the capacity, each by its own call.
		carryOut(killed, withSteps(b.node(id(1), member, lanLink(1, 0)), firstStep, oldStep), b.node(id(2), member, lanLink(2, 0)), b.node(id(3), member, lanLink(3, 0)))
		for _, n := range []int{1, 2, 3} {
			if got := limits(id(n)); got != "" {
				t.Errorf("node %d has the limit %q", n, got)
			}
		}
		// A node moves to a new link, and another leaves.
		carryOut(killed, b.node(id(3), member, link{"other", "one", "10.129.0.3/24", 0}), withSteps(b.node(id(1), member, lanLink(1, 0), link{"other", "one", "10.129.0.1/24", 0}), firstStep, oldStep))
		ping(3, "10.129.0.1", true)
		ping(2, "10.128.0.1", true)
		ping(2, "10.128.0.3", false)
		carryOut(killed, b.node(id(3), member), withSteps(b.node(id(1), member, lanLink(1, 0)), firstStep, oldStep))
		ping(2, "10.128.0.1", true)
		if out := b.ssh("root", nodes[2], "ls /sys/class/net"); strings.Contains(out, "eth1") {
			t.Errorf("a node that left its link has %q", out)
		}
	}
	// A step is replaced: the old one ends, an equal one keeps its result.
	carryOut(false, withSteps(b.node(id(1), member, lanLink(1, 0)), firstStep, newStep))
	wait.Until(t, "the new step has not ended", func() bool {
		r := b.get(id(1))
		return len(r) == 1 && len(r[0].Services) == 2 && strings.Contains(r[0].Services[0], `"done"`) && strings.Contains(r[0].Services[1], `"done"`)
	})
	if out := b.ssh("root", nodes[0], "cat /etc/steps; pgrep -c sleep || true"); out != "first\nold\nnew\n0\n" {
		t.Errorf("the steps did %q", out)
	}
	b.set(absent(id(1)), absent(id(2)), absent(id(3)))
	b.awaitGone(id(1), id(2), id(3))
}
