package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/providertest"
)

// TestLife runs the provider suite with a node on one server, and then a whole life over the API of
// the aggregate.
func TestLife(t *testing.T) {
	b := newBed(t, 1)
	b.sub("suite", func(t *testing.T) {
		providertest.Run(t, filepath.Join(b.prov, "lxd.prov"), providertest.Options{
			Node: provider.Resource{"component": b.hostname()}, Poll: 300 * time.Millisecond, // a get is a process and calls of LXD, so frequent ones would delay it
		})
		if left := b.get(); len(left) > 0 {
			t.Errorf("the suite left %v", left)
		}
	})
	beginChanges(b)
	b.sub("restart ends steps", func(t *testing.T) {
		n := b.node(id(4), b.hostname())
		n["should"].(map[string]any)["setup"] = []string{
			`{"kind":"execute","shell":"sh","command":"echo begun; sleep 1000"}`,
			`{"kind":"execute","shell":"sh","command":"echo once >>/etc/once"}`,
		}
		b.set(n)
		reports := func(i int, text string) func() bool {
			return func() bool {
				r := b.get(id(4))
				return len(r) == 1 && len(r[0].Services) == 2 && strings.Contains(r[0].Services[i], text)
			}
		}
		wait.Until(t, "the output of the running step is not reported", reports(0, `"output":"begun\n"`))
		b.set(update(id(4), map[string]any{"restart_serial": "1"}))
		wait.Until(t, "the step has not ended with the node", reports(0, "it ended with the node, which was restarted"))
		wait.Until(t, "the next step has not run", reports(1, `"state":"done"`))
		if once := b.ssh("root", b.await(id(4))[0], "cat /etc/once"); once != "once\n" {
			t.Errorf("a step has run so often: %q", once)
		}
		b.set(absent(id(4)))
		b.awaitGone(id(4))
	})
	b.sub("changes", func(t *testing.T) { testChanges(t, b) })
	b.sub("server", func(t *testing.T) {
		s := newSite(t, b)
		s.patchbay("up", s.write("lan.xml", lanRequest(20_000)), "--slice", "lan", "--yes")
		for node, steps := range map[string]string{"server": "of server", "client": "of server and client"} {
			if who := s.patchbay("ssh", node, "id -un; cat /etc/setup"); who != "alice\n"+steps+"\n" {
				t.Errorf("%s: %q", node, who)
			}
		}
		s.patchbay("ssh", "server", "getent hosts client")
		if page := s.patchbay("ssh", "server", "cat /opt/page"); page != "a page\n" {
			t.Errorf("the file of the catalogue is %q", page)
		}
		// A node joins, and the capacity changes: the other nodes run on.
		const remember, same = "echo same >/dev/shm/was", "grep same /dev/shm/was && "
		s.patchbay("ssh", "server", remember)
		s.patchbay("ssh", "client", remember)
		s.patchbay("up", s.write("lan.xml", lanRequest(10_000, "late")), "--slice", "lan", "--yes")
		reach := func(node string) string { return "timeout 5 bash -c '</dev/tcp/" + node + "/22'" }
		for node, command := range map[string]string{"server": same + reach("late"), "client": same + reach("late"), "late": reach("server")} {
			wait.Success(t, node+" does not reach the other", func() error { // older nodes learn the name a little later
				_, err := s.try("ssh", node, command)
				return err
			})
		}
		for _, name := range b.instances(b.members[0]) {
			if got := b.lxc(b.members[0], "config", "device", "get", "--project", "patchbay", name, "eth1", "limits.ingress"); got != "10000kbit\n" {
				t.Errorf("%s has the limit %q", name, got)
			}
		}
		if out, err := s.try("up", s.write("wrong.xml", strings.Replace(lanRequest(10_000, "late"), "10000", "5000", 1)), "--slice", "lan", "--yes"); err == nil || !strings.Contains(err.Error(), "capacity that differs between the senders") {
			t.Errorf("different capacities: %v\n%s", err, out)
		}
		s.patchbay("up", s.write("lan.xml", lanRequest(10_000)), "--slice", "lan", "--yes")
		wait.Success(t, "after a node left, the others differ", func() error {
			_, err := s.try("ssh", "server", same+reach("client")+" && ! grep late /etc/hosts")
			return err
		})
		s.patchbay("call", "restart", "--slice", "lan")
		wait.Success(t, "the node has no login after its restart", func() error {
			_, err := s.try("ssh", "server", "true")
			return err
		})
		s.patchbay("down", "lan")
		b.awaitEmpty()
	})
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
	out := b.doctor()
	for _, line := range []string{"trust: lxd.crt opens the project patchbay only", "nodes: 3 nodes with SSH", "frames: a link gets from m2 to all 3 members", "logins: a node on m3 answers", "tunnels: a node on m2 cannot send frames"} {
		if !strings.Contains(out, "ok       "+line) {
			t.Errorf("doctor does not say %q", line)
		}
	}
	b.run("ip", "netns", "exec", b.members[0].namespace, "nft", "flush", "chain", "inet", cluster.table, "acl.lxdbr0")
	if !strings.Contains(b.doctor(), "MISSING  tunnels: a node on m1 can send frames into the links of other slices") {
		t.Error("doctor does not notice that nodes can enter links")
	}
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
	rates := func(mbits float64) {
		t.Helper()
		for _, to := range []int{1, 2} {
			b.ssh("root", nodes[to], receive)
			rate, err := strconv.ParseFloat(strings.TrimSpace(b.ssh("root", nodes[0], fmt.Sprintf(measure, fmt.Sprintf("10.128.0.%d", to+1)))), 64)
			t.Logf("m1 to m%d: %.1f of %.0f Mbit/s", to+1, rate, mbits)
			if err != nil || rate < mbits/2 || rate > 1.2*mbits {
				t.Errorf("m1 to m%d: %.1f Mbit/s, %v; want about %.0f", to+1, rate, err, mbits)
			}
		}
	}
	rates(20)
	// The running nodes get another capacity, and a second link over two members.
	updates = nil
	for n := range 3 {
		updates = append(updates, b.node(id(n), b.members[n].name, link{"lan", "one", fmt.Sprintf("10.128.0.%d/24", n+1), 8000}))
	}
	updates = append(updates, b.node(id(3), "m1", link{"lan", "two", "10.128.0.1/24", 0}, link{"more", "two", "10.129.0.1/24", 0}),
		b.node(id(4), "m2", link{"lan", "two", "10.128.0.4/24", 0}, link{"more", "two", "10.129.0.4/24", 0}))
	for _, u := range updates {
		u["should"].(map[string]any)["change_serial"] = "1"
		b.set(u)
	}
	b.await(id(0), id(1), id(2), id(3), id(4))
	rates(8)
	b.ssh("root", nodes[3], "ping -c 1 -W 5 10.128.0.4 && ping -c 1 -W 5 10.129.0.4")
	b.set(absent(id(0)), absent(id(1)), absent(id(2)), absent(id(3)), absent(id(4)))
	b.awaitGone(id(0), id(1), id(2), id(3), id(4))
}

// TestKills kills the worker and the calls of the provider while nodes are made, set up and removed.
func TestKills(t *testing.T) {
	longOnly(t)
	b := newBed(t, 1)
	kills := longKills(10)
	member := b.hostname()
	killed := 0
	for round := 0; killed < kills; round++ {
		n := b.node(id(round), member, link{"lan", "one", "10.128.0.1/24", 0})
		n["should"].(map[string]any)["setup"] = []string{`{"kind":"execute","shell":"sh","command":"echo once >>/etc/once; sleep 0.3"}`}
		b.set(n)
		for k := range 3 { // at other moments in each round
			time.Sleep(time.Duration((round*7+k*13)%40) * 20 * time.Millisecond)
			killed += b.killWorkers()
			b.get(id(round))
		}
		r := b.await(id(round))
		if round%5 == 0 {
			if once := b.ssh("alice", r[0], "cat /etc/once"); once != "once\n" {
				t.Errorf("after %d kills a step has run so often: %q", killed, once)
			}
		}
		if names := b.instances(b.members[0]); len(names) != 1 {
			t.Errorf("after %d kills there are the instances %q", killed, names)
		}
		b.set(absent(id(round)))
		killed += b.killWorkers()
		b.awaitGone(id(round))
		if names := b.instances(b.members[0]); len(names) > 0 {
			t.Errorf("after %d kills there are the instances %q", killed, names)
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
	t.Logf("reported after %.1f s", time.Since(begin).Seconds())
	b.set(b.node(id(2), "m2"))
	b.await(id(1), id(2))
	b.startDaemon(lost)
	b.awaitBack(id(3))
}

// TestLeaderLost kills the daemon of the leader, whose API the provider uses, while nodes are made.
// The nodes of other members become ready, and the leader's nodes when its daemon is back.
func TestLeaderLost(t *testing.T) {
	longOnly(t)
	b := newBed(t, 3)
	var all, others []string
	var updates []map[string]any
	for n := range 6 {
		all = append(all, id(n))
		updates = append(updates, b.node(id(n), b.members[n%3].name))
		if n%3 != 0 {
			others = append(others, id(n))
		}
	}
	b.set(updates...)
	wait.Until(t, "no node is being made", func() bool {
		return slices.ContainsFunc(b.get(all...), func(r resource) bool { return strings.HasPrefix(r.Message, "being started") })
	})
	leader := b.members[0]
	if err := leader.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = leader.daemon.Wait()
	begin := time.Now()
	b.await(others...)
	t.Logf("the nodes of the other members were ready %.1f s after the kill", time.Since(begin).Seconds())
	b.startDaemon(leader)
	b.awaitBack(all...)
	if names := b.instances(b.members[1]); len(names) != len(all) {
		t.Errorf("there are the instances %q", names)
	}
}

// TestEvacuation evacuates a member. Its nodes stay there, fail with the reason, and run again when
// it is restored.
func TestEvacuation(t *testing.T) {
	longOnly(t)
	b := newBed(t, 2)
	b.set(b.node(id(1), "m1"), b.node(id(2), "m2"))
	b.await(id(1), id(2))
	b.lxc(b.members[0], "cluster", "evacuate", "m2", "--force")
	for _, r := range b.get(id(1), id(2)) {
		if evacuated := strings.Contains(r.Message, "m2 of the cluster is evacuated"); evacuated != (r.Name == id(2)) || evacuated != (r.State == "failed") {
			t.Errorf("%+v", r)
		}
	}
	b.lxc(b.members[0], "cluster", "restore", "m2", "--force")
	r := b.awaitBack(id(2))[0]
	wait.Success(t, "the node of the restored member has no login", func() error {
		_, err := b.trySSH("alice", r, "true") // the node may still boot
		return err
	})
}

// TestMemberAdded adds a member to a served site, as the guide does, and makes a node there.
func TestMemberAdded(t *testing.T) {
	longOnly(t)
	b := newBed(t, 2)
	s := newSite(t, b)
	b.join(b.addHost())
	made, _ := built()
	b.run("ip", "netns", "exec", b.members[0].namespace, made+"/patchbay-lxd", "inventory", s.dir)
	b.run(made+"/patchbay", "reload", "--config", s.dir)
	request := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
<node client_id="new" component_id="urn:publicid:IDN+testbed.example.org+node+m3" exclusive="false"><sliver_type name="container"/></node></rspec>`
	s.patchbay("up", s.write("new.xml", request), "--slice", "new", "--yes")
	if who := s.patchbay("ssh", "new", "id -un"); who != "alice\n" {
		t.Errorf("logged in as %q", who)
	}
	names := b.instances(b.members[0])
	if at := b.lxc(b.members[0], "list", "--project", "patchbay", "-f", "csv", "-c", "L", names[0]); len(names) != 1 || at != "m3\n" {
		t.Errorf("the node %q is on %q", names, at)
	}
	s.patchbay("down", "new")
	b.awaitEmpty()
}

// TestNetworkLogins logs in at the address that a node has in the cluster's network: through a
// gateway, which is a container with an open port, and then from a host with a route.
func TestNetworkLogins(t *testing.T) {
	longOnly(t)
	b := newBed(t, 1)
	first := b.members[0]
	b.importImage("keys", hostKeys)
	b.lxc(first, "launch", "-q", "keys", "gateway", "-n", "lxdbr0", "-s", "default")
	b.lxc(first, "config", "device", "add", "gateway", "ssh", "proxy", "listen=tcp:10.98.0.1:2222", "connect=tcp:127.0.0.1:22")
	s := newSite(t, b)
	b.lxc(first, "file", "push", "-q", "-p", "--mode", "0600", filepath.Join(s.dir, "users", "alice", "id_ed25519.pub"), "gateway/root/.ssh/authorized_keys")
	b.run("sed", "-i", `s/^logins: proxy/logins: network\ngateway: root@10.98.0.1:2222/`, filepath.Join(s.dir, "providers", "lxd.yaml"))
	s.patchbay("up", s.write("lan.xml", lanRequest(20_000)), "--slice", "lan", "--yes")
	if config, err := os.ReadFile(filepath.Join(s.dir, "users", "alice", "ssh_config")); !strings.Contains(string(config), "HostName 10.97.0.") {
		t.Errorf("%s%v", config, err)
	}
	if who := s.patchbay("ssh", "server", "id -un"); who != "alice\n" {
		t.Errorf("logged in as %q", who)
	}
	b.run("ip", "-n", b.prefix+"-sw", "route", "add", "10.97.0.0/24", "via", "10.98.0.1")
	b.run("sed", "-i", "s/^logins: proxy/logins: network/", filepath.Join(b.prov, "lxd.yaml"))
	b.set(b.node(id(1), b.hostname()))
	r := b.await(id(1))[0]
	if who := b.ssh("alice", r, "id -un"); who != "alice\n" {
		t.Errorf("logged in as %q", who)
	}
	foreign := "ping -c 1 -W 5 10.97.0.1 && ip addr add 10.97.0.250/24 dev eth0 && { ping -c 2 -W 1 -I 10.97.0.250 10.97.0.1 || echo refused; }"
	if out := b.ssh("root", r, foreign); !strings.Contains(out, "refused") {
		t.Errorf("a node has the address that it took:\n%s", out)
	}
}

// TestServerKills kills the server while slices are made and removed. Slivers that it has
// acknowledged stay, and nothing else is left.
func TestServerKills(t *testing.T) {
	longOnly(t)
	b := newBed(t, 1)
	s := newSite(t, b)
	request := s.write("lan.xml", lanRequest(20_000))
	kills := longKills(5)
	for round := range kills {
		made := make(chan error, 1)
		go func() {
			_, err := s.try("up", request, "--slice", "lan", "--yes")
			made <- err
		}()
		time.Sleep(time.Duration(round*37%50) * 100 * time.Millisecond) // at another moment in each round
		s.stop(syscall.SIGKILL)
		if round%2 == 1 {
			for _, pid := range b.processes("--name\x00lxd") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		err := <-made
		s.start()
		if err == nil {
			s.patchbay("ssh", "server", "true")
		}
		wait.Success(t, "the slice is not removed", func() error {
			_, err := s.try("down", "lan")
			if err != nil && (strings.Contains(err.Error(), "no slivers") || strings.Contains(err.Error(), "no slice of that name")) {
				return nil
			}
			return err
		})
		b.awaitEmpty()
	}
	t.Logf("%d kills", kills)
}

// longKills is the number of kills in check-full, or the default.
func longKills(n int) int {
	if more, err := strconv.Atoi(os.Getenv("PATCHBAY_LXD_KILLS")); err == nil {
		return more
	}
	return n
}

// hostKeys are commands that give an image a host key, so that its SSH server starts.
const hostKeys = `mkdir -p etc/ssh; ssh-keygen -q -t ed25519 -N "" -f etc/ssh/ssh_host_ed25519_key`

// TestThirtyNodes measures 30 nodes with login beside 30 containers of lxc launch whose SSH servers
// listen. Both are made eight at a time.
func TestThirtyNodes(t *testing.T) {
	longOnly(t)
	const count = 30
	const sysctl = "/proc/sys/fs/inotify/max_user_instances"
	before, err := os.ReadFile(sysctl)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sysctl, []byte("4096"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(sysctl, before, 0) })
	b := newBed(t, 1)
	b.importImage("keys", hostKeys)
	b.lxc(b.members[0], "profile", "device", "add", "default", "root", "disk", "path=/", "pool=default")
	launch := cluster.client + ` launch -q keys x$1 -n lxdbr0 && ` + cluster.client + ` exec x$1 -- sh -c 'until ss -ltn | grep -q :22; do sleep 0.05; done'`
	// settle waits until the pool has freed what was deleted, which would slow the next measurement down.
	settle := func() {
		b.run("nsenter", "-t", strconv.Itoa(b.processes(cluster.daemon + "\x00--group")[0]), "-m", "sh", "-c", "sync; timeout 20 btrfs subvolume sync "+b.members[0].dir+"/storage-pools/default || true")
	}
	measure := func(round int) (plain, ours float64) {
		settle()
		begin := time.Now()
		b.run(b.members[0].with("sh", "-c", fmt.Sprintf("seq %d | xargs -P 8 -n 1 sh -ec '%s' sh", count, strings.ReplaceAll(launch, "'", `'"'"'`)))...)
		plain = time.Since(begin).Seconds()
		b.run(b.members[0].with("sh", "-c", fmt.Sprintf("seq -f x%%g %d | xargs -P 8 -n 1 %s delete -f", count, cluster.client))...)
		var names []string
		var updates, ends []map[string]any
		for n := range count {
			names = append(names, id(100*round+n))
			updates = append(updates, b.node(id(100*round+n), b.hostname()))
			ends = append(ends, absent(id(100*round+n)))
		}
		settle()
		begin = time.Now()
		b.set(updates...)
		nodes := b.await(names...)
		ours = time.Since(begin).Seconds()
		for _, k := range []int{0, count - 1} {
			b.ssh("alice", nodes[k], "true")
		}
		b.set(ends...)
		b.awaitGone(names...)
		return plain, ours
	}
	b.set(b.node(id(999), b.hostname())) // makes the template, as doctor does
	b.await(id(999))
	b.set(absent(id(999)))
	b.awaitGone(id(999))
	for round := range 3 {
		plain, ours := measure(round)
		t.Logf("%d containers: lxc launch %.1f s, nodes with login %.1f s, ratio %.2f", count, plain, ours, ours/plain)
	}
}
