package testbed

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/fabric"
)

// newLinkedNode is a node with interfaces.
func (s *site) newLinkedNode(hostname string, items ...string) provider.Resource {
	r := s.newNode(hostname, "alice")
	r["interfaces"] = items
	return r
}

// nodeAt returns the host name of the SSH server at an address or name, as seen from a node;
// empty if there is none.
func (s *site) nodeAt(r observedNode, at string) string {
	s.t.Helper()
	out, err := s.ssh(r, "alice", "ssh -o BatchMode=yes -o ConnectTimeout=3 "+at+" hostname")
	if err != nil {
		return "nobody"
	}
	return out
}

// sshBanners returns the answers at port 22 of addresses or names, as seen from a node.
func (s *site) sshBanners(r observedNode, at ...string) map[string]string {
	s.t.Helper()
	const script = `for at in %s; do echo "$at $(timeout 5 bash -c "head -1 </dev/tcp/$at/22" 2>&1)"; done`
	all := map[string]string{}
	for line := range strings.Lines(s.mustSSH(r, "alice", fmt.Sprintf(script, strings.Join(at, " ")))) {
		name, banner, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = banner
	}
	if len(all) != len(at) {
		s.t.Errorf("%d answers of %d", len(all), len(at))
	}
	return all
}

// interfaceItems returns the reported interfaces of a node.
func (s *site) interfaceItems(name string) map[string]map[string]any {
	s.t.Helper()
	var out struct {
		Resources []struct{ Interfaces []string }
	}
	s.call("get", object{"names": []string{name}}, &out)
	all := map[string]map[string]any{}
	for _, text := range out.Resources[0].Interfaces {
		var item map[string]any
		if err := json.Unmarshal([]byte(text), &item); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		all[fmt.Sprint(item["client_id"])] = item
	}
	return all
}

// networks lists the networks of the site.
func (s *site) networks() []string {
	s.t.Helper()
	h, err := fabric.Open(fabric.Options{Folder: filepath.Join(s.options.State, fabricsFolder)})
	if err != nil {
		s.t.Fatal(err)
	}
	defer h.Close()
	all, err := h.Slices()
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// reapChildren waits for processes of killed testbeds, which are now children of this process.
func reapChildren() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}

// TestRealLinks has three nodes on a LAN, two of them also on a shaped link, through restarts of
// a node and of the testbed, until first one and then all nodes are removed.
func TestRealLinks(t *testing.T) {
	require.Root(t)
	reapChildren()
	before, err := hoststate.Take(hoststate.Options{Only: []string{"testbed-l1", t.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "testbed-l1", 43100)
	a, b, c := nodeName(1), nodeName(2), nodeName(3)
	slow := `,"properties":[{"capacity":50000,"latency":10}]`
	s.set(map[string]provider.Resource{
		a: s.newLinkedNode("a", interfaceItem("a:0", "lan", "10.9.0.1/24", ""), interfaceItem("a:1", "slow", "10.9.1.1/24", slow)),
		b: s.newLinkedNode("b", interfaceItem("b:0", "lan", "10.9.0.2/24", ""), interfaceItem("b:1", "slow", "fd09::2/64", slow), `{"client_id":"b:2","addresses":["10.9.3.1/24"]}`),
		c: s.newLinkedNode("c", interfaceItem("c:0", "lan", "10.9.0.3/24", "")),
	})
	all := s.awaitSettled(a, b, c)
	everybody := func(when string) {
		t.Helper()
		all = s.awaitSettled(a, b, c)
		for from, name := range map[string]string{"a": a, "b": b, "c": c} {
			for at, banner := range s.sshBanners(all[name], "10.9.0.1", "10.9.0.2", "10.9.0.3", "a", "b", "c-lan") {
				if !strings.HasPrefix(banner, "SSH-2.0") {
					t.Errorf("%s: from %s to %s: %q", when, from, at, banner)
				}
			}
		}
	}
	everybody("made")
	for at, want := range map[string]string{"b": "b", "c-lan": "c", "10.9.0.2": "b", "b-slow": "nobody"} { // a has no IPv6 address on slow
		if got := s.nodeAt(all[a], at); got != want {
			t.Errorf("a logs in to %s as %s, want %s", at, got, want)
		}
	}
	if got := s.mustSSH(all[a], "alice", "getent hosts b; getent hosts b-slow; cat /sys/class/net/eth*/mtu /sys/class/net/eth*/operstate /sys/class/net/eth*/address"); got != strings.Join([]string{
		"10.9.0.2        b b-lan", "fd09::2         b-slow", "1500", "1500", "up", "up", macOf(a, "a:0").String(), macOf(a, "a:1").String(),
	}, "\n") {
		t.Errorf("a has\n%s", got)
	}
	if got := s.mustSSH(all[b], "alice", "ls /sys/class/net"); got != "eth1\neth2\neth3\nlo" {
		t.Errorf("b has %q", got)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		items := s.interfaceItems(a)
		lan, slow := items["a:0"], items["a:1"]
		in, _ := lan["rx_packets"].(float64)
		out, _ := lan["tx_bytes"].(float64)
		dropped, known := lan["dropped"].(float64)
		if lan["mac"] == macOf(a, "a:0").String() && lan["emulator"] == "bridge" && slow["emulator"] != "bridge" && slow["emulator"] != nil && in >= 10 && out >= 1000 && known && dropped == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("a reports %v", items)
			break
		}
	}

	for _, r := range []observedNode{all[a], all[b]} {
		s.mustSSH(r, "alice", "sudo ip link set eth1 mtu 9000; sudo ip link set eth2 mtu 9000")
	}
	for _, at := range []string{"b-lan", "fd09::2"} {
		if got := s.mustSSH(all[a], "alice", "sudo ip address add fd09::1/64 dev eth2 nodad 2>/dev/null; head -c 200000 /dev/zero | timeout 20 ssh -o BatchMode=yes "+at+" wc -c"); got != "200000" {
			t.Errorf("with an MTU of 9000, %s bytes arrive at %s", got, at)
		}
	}

	var listed []local.ListedLink
	s.call("links", nil, &listed)
	if len(listed) != 6 || fmt.Sprint(listed[1].Properties) != "[{[] 50000 10 0}]" || listed[1].Interface != "eth2" || listed[1].Counters == nil || listed[1].Emulator == "" || listed[1].MAC != macOf(a, "a:1").String() {
		t.Errorf("listed are %+v", listed)
	}

	s.set(map[string]provider.Resource{b: {"restart_serial": "1"}})
	everybody("a node was restarted")
	s.up()
	everybody("the testbed was restarted")
	kill := s.runInProcess()
	waitForSocket(t, s.options.Socket)
	s.awaitSettled(a, b, c)
	kill()
	s.up()
	everybody("the testbed was killed")

	s.set(map[string]provider.Resource{a: {"ensure": "absent"}})
	s.awaitGone(a)
	if got := s.nodeAt(all[b], "10.9.0.1"); got != "nobody" {
		t.Errorf("at the address of a node that is gone: %s", got)
	}
	if got := s.nodeAt(all[b], "c"); got != "c" {
		t.Errorf("from b to c, without a: %s", got)
	}
	if got := s.networks(); !slices.Equal(got, []string{sliceID(sliceURN)}) {
		t.Errorf("networks %v", got)
	}
	s.set(map[string]provider.Resource{b: {"ensure": "absent"}, c: {"ensure": "absent"}})
	s.awaitGone(b, c)
	// The last network is removed a little later.
	for end := time.Now().Add(20 * time.Second); len(s.networks()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("networks are left: %v", s.networks())
		}
	}
	s.stop()
	if err := Clean(t.Context(), s.options, func(string) {}); err != nil {
		t.Error(err)
	}
	reapChildren()
	hoststate.Await(t, before, 30*time.Second)
}

// synWithTags is a program that asks 10.9.0.1 for a TCP connection, from the node with the address 10.9.0.4.
const synWithTags = `
import socket, struct, sys, time
mac, tags, port = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2]), int(sys.argv[3])
def sum16(b):
    t = sum(struct.unpack(">%dH" % (len(b) // 2), b))
    t = (t >> 16) + (t & 65535)
    return struct.pack(">H", ~(t + (t >> 16)) & 65535)
ends = bytes([10, 9, 0, 4, 10, 9, 0, 1])
tcp = struct.pack(">HHIIBBH", 40000 + tags, port, 1, 0, 80, 2, 64000)
tcp += sum16(ends + bytes([0, 6, 0, 20]) + tcp) + bytes(2)
ip = struct.pack(">BBHHHBB", 69, 0, 40, 0, 0, 64, 6)
ip += sum16(ip + ends) + ends
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("eth1", 0))
own = bytes.fromhex(open("/sys/class/net/eth1/address").read().strip().replace(":", ""))
s.send(mac + own + bytes([129, 0, 0, 0]) * tags + bytes([8, 0]) + ip + tcp)
end, got = time.time() + 2, "none"
s.settimeout(0.2)
while time.time() < end and got == "none":
    try:
        f = s.recv(9999)
    except TimeoutError:
        continue
    if f[12:14] == bytes([8, 0]) and f[23] == 6 and f[26:34] == ends[4:] + ends[:4] and f[34:38] == struct.pack(">HH", port, 40000 + tags):
        got = str(f[47] & 63)
print(got)
`

// A partner who was removed has a copy of the slice's key, and a node of another slice on the same
// shared VLAN.
func TestRealKeyOfARemovedUser(t *testing.T) {
	s := newSite(t, "testbed-l3", 43300)
	s.options.Settings.SharedVLANs = []string{"campus"}
	s.up()
	a, b, off, theirs, later := nodeName(1), nodeName(2), nodeName(3), nodeName(4), nodeName(5)
	const campus = `,"shared_vlan":"campus"`
	nodes := map[string]provider.Resource{
		a: s.newLinkedNode("a", interfaceItem("0", "lan", "10.9.0.1/24", campus)), b: s.newLinkedNode("b", interfaceItem("1", "lan", "10.9.0.2/24", campus)),
		off:    s.newLinkedNode("off", interfaceItem("2", "lan", "10.9.0.3/24", campus)),
		theirs: s.newLinkedNode("x", strings.ReplaceAll(interfaceItem("0", "lan", "10.9.0.4/24", campus), sliceURN, sliceURN+"2")),
	}
	nodes[theirs]["slice_urn"] = sliceURN + "2"
	for _, name := range []string{a, b, off} {
		nodes[name]["users"] = s.newNode("", "alice", "bob")["users"]
	}
	s.set(nodes)
	all := s.awaitSettled(a, b, off, theirs)
	s.set(map[string]provider.Resource{off: {"power": "off"}})
	copied := s.mustSSH(all[a], "bob", "geni-get key")
	// from logs in to an address with the copied key, from a node.
	from := func(r observedNode, at string) string {
		const script = `umask 077; echo '%s' >k; ssh -F none -i k -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectTimeout=2 -o StrictHostKeyChecking=no root@%s hostname 2>&1; true`
		return s.mustSSH(r, "alice", fmt.Sprintf(script, copied, at))
	}
	if got := from(all[b], "10.9.0.1"); !strings.HasSuffix(got, "a") {
		t.Errorf("before the removal, in the slice: %s", got)
	}
	if got := s.mustSSH(all[theirs], "alice", "timeout 5 bash -c '</dev/tcp/10.9.0.1/23' 2>&1; true"); !strings.Contains(got, "refused") {
		t.Errorf("the shared VLAN does not reach the other slice: %s", got)
	}
	if got := from(all[theirs], "10.9.0.1"); !strings.Contains(got, "timed out") {
		t.Errorf("from another slice by a shared VLAN: %s", got)
	}
	for _, tt := range []struct {
		tags, port int
		want       string // the flags of the answer: 20 is RST and ACK, or none
	}{{0, 23, "20"}, {2, 22, "none"}, {1, 22, "none"}, {0, 22, "none"}} {
		if got := s.mustSSH(all[theirs], "alice", fmt.Sprintf("sudo python3 -c '%s' $(ip -4 neigh show 10.9.0.1 dev eth1 | sed 's/.*lladdr //; s/ .*//') %d %d", synWithTags, tt.tags, tt.port)); got != tt.want {
			t.Errorf("from another slice with %d tags without a VLAN, to port %d: %s, want %s", tt.tags, tt.port, got, tt.want)
		}
	}
	alone := s.newNode("", "alice")["users"]
	s.set(map[string]provider.Resource{a: {"users": alone}, b: {"users": alone}, off: {"users": alone}})
	s.awaitSettled(a, b, off)
	s.set(map[string]provider.Resource{off: {"power": "on"}, later: s.newNode("later", "alice")})
	all = s.awaitSettled(a, b, off, theirs, later)
	s.mustSSH(all[a], "alice", "for i in $(seq 100); do cmp -s ~/.ssh/id_rsa <(geni-get key) && getent hosts later && exit; sleep 0.05; done; exit 1")
	for _, at := range []string{"10.9.0.2", "off", "later"} {
		if got := from(all[a], at); !strings.Contains(got, "Permission denied") {
			t.Errorf("the removed user's copy of the key, to %s: %s", at, got)
		}
		if got := s.nodeAt(all[a], at); got == "nobody" {
			t.Errorf("the new key does not open %s", at)
		}
	}
}
