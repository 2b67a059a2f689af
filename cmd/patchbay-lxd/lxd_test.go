package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/providertest"
)

// TestLife runs the provider suite with a node on one server.
func TestLife(t *testing.T) {
	b := newBed(t, 1)
	name := strings.TrimSpace(b.run("hostname"))
	providertest.Run(t, filepath.Join(b.prov, "lxd.prov"), providertest.Options{
		Node: provider.Resource{"component": name}, Poll: 100 * time.Millisecond,
	})
	if left := b.get(); len(left) > 0 {
		t.Errorf("the suite left %v", left)
	}
}

func longOnly(t *testing.T) {
	t.Helper()
	if !require.Long() {
		t.Skip("it takes a minute; PATCHBAY_LONG=1 runs it")
	}
}

// measure sends for a second from one node to the other, and prints Mbit/s.
const measure = `python3 -c '
import socket, time
s = socket.create_connection(("%s", 5001)); block = bytes(65536); sent = 0; begin = time.time()
while time.time() - begin < 2: sent += s.send(block)
s.shutdown(1); s.recv(1); print(sent * 8 / (time.time() - begin) / 1e6)
'`

// receive accepts one connection in the background.
const receive = `setsid python3 -c '
import socket
l = socket.create_server(("", 5001)); c, _ = l.accept()
while c.recv(65536): pass
c.send(b"x")
' >/dev/null 2>&1 </dev/null & while ! ss -ltn | grep -q :5001; do :; done`

// TestClusterLinks makes a LAN over three members with logins, measures its capacity, and shows that
// another slice with the same addresses is apart.
func TestClusterLinks(t *testing.T) {
	longOnly(t)
	b := newBed(t, 3)
	var updates []map[string]any
	for n := range 3 {
		updates = append(updates, b.node(id(n), b.members[n].name, link{"lan", "one", fmt.Sprintf("10.128.0.%d/24", n+1), 20_000}))
	}
	updates = append(updates, b.node(id(3), "m1", link{"lan", "two", "10.128.0.1/24", 0}), b.node(id(4), "m2", link{"lan", "two", "10.128.0.4/24", 0}))
	b.set(updates...)
	nodes := b.await(id(0), id(1), id(2), id(3), id(4))
	if who := b.ssh("alice", nodes[4], "id -un"); who != "alice\n" {
		t.Errorf("logged in as %q", who)
	}
	for _, to := range []string{"10.128.0.2", "10.128.0.3"} {
		b.ssh("root", nodes[0], "ping -c 1 -W 5 "+to)
	}
	b.ssh("root", nodes[3], "ping -c 1 -W 5 10.128.0.4")
	if out := b.ssh("root", nodes[0], "ping -c 2 -W 1 10.128.0.4 || echo apart"); !strings.Contains(out, "apart") {
		t.Errorf("a node of one slice reaches another slice:\n%s", out)
	}
	if mtu := b.ssh("root", nodes[0], "cat /sys/class/net/eth1/mtu"); strings.TrimSpace(mtu) != "1450" {
		t.Errorf("MTU %s", mtu)
	}
	for _, to := range []int{1, 2} {
		b.ssh("root", nodes[to], receive)
		rate, err := strconv.ParseFloat(strings.TrimSpace(b.ssh("root", nodes[0], fmt.Sprintf(measure, fmt.Sprintf("10.128.0.%d", to+1)))), 64)
		t.Logf("m1 to m%d: %.1f of 20 Mbit/s", to+1, rate)
		if err != nil || rate < 10 || rate > 24 {
			t.Errorf("m1 to m%d: %.1f Mbit/s, %v; want about 20", to+1, rate, err)
		}
	}
	b.set(absent(id(0)), absent(id(1)), absent(id(2)), absent(id(3)), absent(id(4)))
	b.awaitGone(id(0), id(1), id(2), id(3), id(4))
}

// TestKills kills the worker and the calls of the provider while nodes are made and removed.
func TestKills(t *testing.T) {
	longOnly(t)
	b := newBed(t, 1)
	kills := 10
	if n, err := strconv.Atoi(os.Getenv("PATCHBAY_LXD_KILLS")); err == nil {
		kills = n
	}
	member := strings.TrimSpace(b.run("hostname"))
	killed := 0
	for round := 0; killed < kills; round++ {
		b.set(b.node(id(round), member, link{"lan", "one", "10.128.0.1/24", 0}))
		for k := range 3 { // at other moments in each round
			time.Sleep(time.Duration((round*7+k*13)%40) * 20 * time.Millisecond)
			killed += b.killWorkers()
			b.get(id(round))
		}
		r := b.await(id(round))
		if round%5 == 0 {
			b.ssh("alice", r[0], "true")
		}
		if names := strings.Fields(b.lxc(b.members[0], "list", "--project", "patchbay", "-f", "csv", "-c", "n")); len(names) != 1 {
			t.Errorf("after %d kills there are the instances %q", killed, names)
		}
		b.set(absent(id(round)))
		killed += b.killWorkers()
		b.awaitGone(id(round))
		if names := b.lxc(b.members[0], "list", "--project", "patchbay", "-f", "csv", "-c", "n"); names != "" {
			t.Errorf("after %d kills there are the instances %s", killed, names)
		}
	}
	t.Logf("%d kills", killed)
	if left, err := filepath.Glob(b.prov + "/lxd.nodes/*"); err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
}

// TestMemberLost kills the daemon of a member. Its nodes fail with the reason and come back; nodes
// of other members are made meanwhile.
func TestMemberLost(t *testing.T) {
	longOnly(t)
	b := newBed(t, 3)
	b.set(b.node(id(1), "m1"), b.node(id(3), "m3"))
	b.await(id(1), id(3))
	lost := b.members[2]
	if err := lost.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lost.daemon.Wait()
	begin := time.Now()
	wait.Until(t, "the lost member's node does not fail", func() bool {
		r := b.get(id(3))
		return len(r) == 1 && r[0].State == "failed" && strings.Contains(r[0].Message, "m3")
	})
	t.Logf("told after %.1f s", time.Since(begin).Seconds())
	b.set(b.node(id(2), "m2"))
	b.await(id(1), id(2))
	b.startDaemon(lost)
	b.await(id(3))
}
