package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// TestNodes runs all tests that need a testbed as it is by default, and its nodes a, b and c.
func TestNodes(t *testing.T) {
	require.Root(t)
	shared := shareFiles(t) // created before the nodes
	s := newLoginSite(t)
	a := &arena{testSite: s.testSite}
	for _, tt := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"Logins", s.logins},
		{"Disks", func(t *testing.T) { disksAreHidden(t, a) }},
		{"Tools", func(t *testing.T) { toolsRun(t, a) }},
		{"Shared", func(t *testing.T) { nodesReadWhatEverybodyMayRead(t, a, shared) }},
		{"Programs", s.programsInside},
		{"Messages", func(t *testing.T) { errorMessagesWhileRunning(t, a) }},
		{"Restart", func(t *testing.T) { sessionsOutliveUp(t, a) }},
		{"Fragments", func(t *testing.T) { fragmentsAreBounded(t, a) }},
		{"Sysctls", func(t *testing.T) { sysctlsOfNodes(t, a) }}, // at last: some turn off what other tests need
	} {
		t.Run(tt.name, tt.test)
	}
}

// sysctlsOfNodes checks that root of a node can change the settings that labs change, but no limit
// of kernel memory and nothing that prevents other users' logins.
func sysctlsOfNodes(t *testing.T, a *arena) {
	row := func(path, value, must string) {
		path = "/proc/sys/" + path
		if _, err := os.Stat(path); err != nil {
			return // this kernel does not have it
		}
		t.Run(path, func(t *testing.T) {
			out, err := a.enter(nodeA, nil, fmt.Sprintf("echo %[2]s > %[1]s && cat %[1]s", path, value))
			if !strings.Contains(out, must) {
				t.Errorf("answered %q (%v), must be %q", out, err, must)
			}
		})
	}
	for _, path := range []string{
		"kernel/pid_max", "kernel/domainname", "kernel/core_pattern", "kernel/printk", "vm/drop_caches", "vm/overcommit_memory", "fs/file-max",
		"user/max_user_namespaces", "net/ipv4/ipfrag_high_thresh", "net/ipv6/ip6frag_high_thresh", "net/ipv4/tcp_max_tw_buckets", "net/ipv4/neigh/lo/unres_qlen_bytes",
		"net/ipv6/neigh/lo/unres_qlen", "net/netfilter/nf_hooks_lwtunnel",
	} {
		row(path, "400", "Read-only file system")
	}
	t.Run("thresholds of other names", func(t *testing.T) {
		// Three of TCP's are about times and congestion.
		out, err := a.enter(nodeA, nil, `find /proc/sys -type f -writable | grep -E '_thresh|unres_qlen|optmem|max_size|_max_tw' | grep -vE '/tcp_(pingpong|plb_cong|probe)_thresh' || echo none`)
		if out != "none\n" {
			t.Errorf("writable: %q, %v", out, err)
		}
	})
	// A later device has the same limits.
	t.Run("a new device", func(t *testing.T) {
		out, err := a.enter(nodeA, nil, "ip link add name dummy9 type veth peer name dummy8 && cd /proc/sys/net && echo 2 > ipv4/conf/dummy9/rp_filter && cat ipv4/conf/dummy9/rp_filter && echo 9 > ipv4/neigh/dummy9/unres_qlen")
		if !strings.Contains(out, "2\n") || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%q, %v", out, err)
		}
	})
	for path, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "2", "net/ipv4/conf/lo/arp_ignore": "1", "net/ipv6/conf/all/forwarding": "1",
		"net/ipv6/conf/lo/disable_ipv6": "1", "net/ipv4/tcp_congestion_control": "reno", "net/ipv4/tcp_syncookies": "0", "net/ipv4/tcp_fin_timeout": "11",
		"net/ipv4/icmp_echo_ignore_all": "1", "net/core/somaxconn": "9999", "net/ipv4/ip_local_port_range": "20000\t30000", "net/ipv4/ipfrag_time": "7",
		"kernel/msgmax": "9001", "kernel/sem": "251\t32000\t32\t128", "kernel/shmmax": "12345678", "fs/mqueue/msg_max": "12",
	} {
		row(path, "'"+value+"'", value)
	}
}

// fragmentsAreBounded checks the limit of memory for fragments, which is charged to no node.
func fragmentsAreBounded(t *testing.T, a *arena) {
	a.copyProgram(t, nodeA, programOfTests(t))
	if out := a.task(nodeA, "fragments"); out != "bounded" {
		t.Error(out)
	}
}

// fragments raises the limits for fragments and sends more than the default allows.
// Before that, a fragmented packet arrives as in any node.
func fragments() string {
	if got := wholeOfPieces(); got != "whole" {
		return "a packet in pieces: " + got
	}
	const high = "/proc/sys/net/ipv4/ipfrag_high_thresh"
	raised := write(high, "1073741824")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return errnoText(err)
	}
	packet := make([]byte, 60000)
	packet[0] = 0x45
	packet[6] = 0x20 // more follow
	packet[8], packet[9] = 64, unix.IPPROTO_UDP
	copy(packet[12:], []byte{127, 0, 0, 1, 127, 0, 0, 1})
	for id := range 500 { // 30 MB
		packet[4], packet[5] = byte((id+1)>>8), byte(id+1)
		if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return errnoText(err)
		}
	}
	var waiting, memory int
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "FRAG: inuse %d memory %d", &waiting, &memory)
	}
	switch {
	case waiting == 0:
		return "no fragment waits: " + string(text)
	case raised != "EROFS":
		return fmt.Sprintf("%s: %s; fragments take %d bytes", high, raised, memory)
	case memory > 5<<20: // the default is 4 MiB
		return fmt.Sprintf("fragments take %d bytes", memory)
	}
	return "bounded"
}

// wholeOfPieces sends a datagram that is larger than the MTU of lo.
func wholeOfPieces() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return errnoText(err)
	}
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return errnoText(err)
	}
	lo.SetUint32(1500)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, lo); err != nil {
		return errnoText(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return errnoText(err)
	}
	self, err := unix.Getsockname(fd)
	if err == nil {
		err = unix.Sendto(fd, make([]byte, 20000), 0, self)
	}
	if err != nil {
		return errnoText(err)
	}
	n, _, err := unix.Recvfrom(fd, make([]byte, 30000), unix.MSG_DONTWAIT)
	if err != nil || n != 20000 {
		return fmt.Sprint(n, " ", errnoText(err))
	}
	lo.SetUint32(65536)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, lo); err != nil {
		return errnoText(err)
	}
	return "whole"
}

// shareFiles creates a folder below the host's /usr with files of many modes.
func shareFiles(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/usr/share", "patchbay-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "closed"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{
		"secret": 0o600, "group": 0o640, "script": 0o700, "closed/inside": 0o644, "public": 0o755, "later": 0o644,
	} {
		shareFile(t, filepath.Join(dir, name), mode)
	}
	for link, to := range map[string]string{"link": "secret", "good-link": "public"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func shareFile(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	text := "#!/bin/sh\necho " + filepath.Base(path) + "\n"
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// nodesReadWhatEverybodyMayRead checks that root of a node can read every public file below the
// host's /usr, also if the file or its mode is newer than the node.
func nodesReadWhatEverybodyMayRead(t *testing.T, a *arena, dir string) {
	if err := os.Chmod(filepath.Join(dir, "later"), 0o600); err != nil {
		t.Fatal(err)
	}
	shareFile(t, filepath.Join(dir, "new"), 0o600)
	for _, line := range []string{
		"cat secret", "cat group", "cat later", "cat new", "cat link", "./script", "ls closed", "cat closed/inside",
		"cp secret /var/tmp", "chmod 644 secret", "ln secret other", "mv secret other", "echo more >> secret", "tail -c 4 < /proc/self/cwd/secret",
	} {
		t.Run(line, func(t *testing.T) {
			out, err := a.enter(nodeA, nil, "cd "+dir+" && "+line)
			if err == nil || !strings.Contains(out, "Permission denied") {
				t.Errorf("answered %q, %v; must be refused", out, err)
			}
		})
	}
	for _, tt := range [][2]string{
		{"./public", "public\n"},
		{"./good-link", "public\n"},
		{"stat -c '%u %a' secret public", "0 600\n0 755\n"},
		{"chmod 700 public && mv public mine && ./mine", "public\n"},
		{"rm secret && echo own > secret && chmod 600 secret && cat secret", "own\n"},
	} {
		t.Run(tt[0], func(t *testing.T) {
			if out, err := a.enter(nodeA, nil, "cd "+dir+" && "+tt[0]); err != nil || out != tt[1] {
				t.Errorf("answered %q, %v; want %q", out, err, tt[1])
			}
		})
	}
	t.Run("sudo", func(t *testing.T) {
		require.Tool(t, "sudo")
		if out, err := a.ssh(t, nodeA, "sudo -n id -u"); err != nil || out != "0\n" {
			t.Errorf("answered %q, %v", out, err)
		}
	})
}

// disksAreHidden checks that a node has its processors and network devices in /sys, and no disk of
// the host.
func disksAreHidden(t *testing.T, a *arena) {
	disks, err := filepath.Glob("/sys/block/*")
	if err != nil {
		t.Fatal(err)
	}
	// The names of disks and of their controllers.
	names := map[string]bool{}
	for _, disk := range disks {
		way, err := filepath.EvalSymlinks(disk)
		if err != nil {
			continue // it has just gone
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(way, "/sys/devices/"), "/") {
			names[part] = part != "virtual" && part != "block"
		}
	}
	out, err := a.enter(nodeA, nil, "find /sys -mindepth 1 2>/dev/null; true")
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(out) {
		path = strings.TrimSpace(path)
		if names[filepath.Base(path)] {
			t.Errorf("a node sees %s", path)
		}
	}
	out, err = a.enter(nodeA, nil, "cat /sys/devices/system/cpu/online /sys/class/net/lo/mtu && ls -d /sys/class/net/lo/statistics /sys/devices/virtual/net/lo /sys/devices/system/node 2>/dev/null")
	cpus, _ := os.ReadFile("/sys/devices/system/cpu/online")
	want := string(cpus) + "65536\n/sys/class/net/lo/statistics\n"
	if _, err := os.Stat("/sys/devices/system/node"); err == nil {
		want += "/sys/devices/system/node\n"
	}
	want += "/sys/devices/virtual/net/lo\n"
	if out != want {
		t.Errorf("what nodes need: %q, %v; want %q", out, err, want)
	}
}

// toolsRun checks that the programs of labs work in nodes, as root.
func toolsRun(t *testing.T, a *arena) {
	for _, tt := range []struct{ tool, line, want string }{
		{"busybox", "busybox ping -c 1 127.0.0.1", "1 packets received"},
		{"ping", "ping -c 1 127.0.0.1", "1 received"},
		{"ip", "ip address add 192.0.2.1/24 dev lo && ip ntable change name arp_cache dev lo base_reachable 20000 && ip -o address show dev lo", "192.0.2.1/24"},
		{"sysctl", "sysctl -w net.ipv4.ip_forward=1 && sysctl net.ipv4.conf.all.rp_filter", "net.ipv4.ip_forward = 1"},
		{"iptables", "iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE && iptables -t nat -S", "-j MASQUERADE"},
		{"tcpdump", `tcpdump -Z root -i lo -n -c 1 udp port 9 2>/tmp/said & while ! grep -q listening /tmp/said; do sleep 0.1; done; echo x >/dev/udp/127.0.0.1/9; wait`, "127.0.0.1.9: UDP"},
		{"ipcmk", "ipcmk -Q && ipcmk -S 2 && ipcmk -M 4096 && ipcs", "Semaphore"},
		{"lscpu", "lscpu", "CPU(s):"},
		{"busybox", `cd /tmp && echo served > page && busybox httpd -p 127.0.0.1:8080 && busybox wget -q -O - http://127.0.0.1:8080/page`, "served"},
	} {
		t.Run(tt.tool+" "+tt.want, func(t *testing.T) {
			require.Tool(t, tt.tool)
			if out, err := a.enter(nodeA, nil, "PATH=$PATH:/usr/sbin; "+tt.line); err != nil || !strings.Contains(out, tt.want) {
				t.Errorf("answered %q, %v; want %q", out, err, tt.want)
			}
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if len(found) == 0 {
			require.Tool(t, "initdb")
			t.Skip("PostgreSQL is not installed as Debian does")
		}
		out, err := a.ssh(t, nodeA, "PATH=$PATH:"+filepath.Dir(found[0])+`; cd /var/tmp && { initdb -N -D db && pg_ctl -D db -o '-k /tmp' -w start; } >log 2>&1 </dev/null || cat log
psql -h /tmp -d postgres -tAc 'create table t as select generate_series(1, 1000) n; select sum(n) from t' && pg_ctl -D db -m immediate stop >/dev/null`)
		if err != nil || !strings.Contains(out, "500500") {
			t.Errorf("answered %q, %v", out, err)
		}
	})
}
