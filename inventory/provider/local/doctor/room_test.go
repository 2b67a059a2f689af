package doctor

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	meminfo := dir + "/meminfo"
	if err := os.WriteFile(meminfo, []byte("MemTotal: 900000 kB\nMemAvailable:   204800 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		meminfo       string
		memory, disk  int64
		words, remedy string
	}{
		{"Enough", meminfo, 100 << 20, 1, "200 MiB of memory", ""},
		{"TooLittleMemory", meminfo, 201 << 20, 1, "at least 201 MiB of memory", "ps aux"},
		{"TooLittleDisk", meminfo, 1, 1 << 60, "of disk", "du -xh"},
		{"NoProc", dir + "/none", 1, 1, "cannot read the free memory", "mount -t proc"},
	} {
		words, bad := checkRoom(dir, c.meminfo, c.memory, c.disk)
		if bad == nil {
			bad = &trouble{words, ""}
		}
		if !strings.Contains(bad.Words, c.words) || !strings.Contains(bad.Remedy, c.remedy) || (bad.Remedy == "") != (c.remedy == "") {
			t.Errorf("%s: got %+v", c.name, *bad)
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		name          string
		place         Place
		words, remedy string
	}{
		{"NotRequested", Place{}, "not tested", ""},
		{"Taken", Place{Address: "127.0.0.1", First: taken, Last: taken}, "none of the ports", "ss -tlnp"},
		{"TakenByTheTestbed", Place{Address: "127.0.0.1", First: taken, Last: taken, Running: true, Gateway: taken}, "the testbed runs", ""},
		{"GatewayTaken", Place{Address: "127.0.0.1", First: 10000, Last: 10009, Gateway: taken}, "of the gateway", "gateway_port"},
		{"NotOurAddress", Place{Address: "192.0.2.1", First: 10000, Last: 10009}, "192.0.2.1 is no address of this host", "ip -brief address"},
		{"NoAddress", Place{Address: "192.0.2", First: 10000, Last: 10009}, "cannot listen on 192.0.2", "ip -brief address"},
		{"Backwards", Place{First: 2, Last: 1}, "2-1 is no range", "20000-29999"},
		{"TooHigh", Place{First: 65000, Last: 70000}, "65000-70000 is no range", "20000-29999"},
		{"Negative", Place{First: -1, Last: 5}, "is no range", "20000-29999"},
	} {
		words, bad := tryPorts(t.Context(), &resources{place: c.place})
		if bad == nil {
			bad = &trouble{words, ""}
		}
		if !strings.Contains(bad.Words, c.words) || !strings.Contains(bad.Remedy, c.remedy) || (bad.Remedy == "") != (c.remedy == "") {
			t.Errorf("%s: got %+v", c.name, *bad)
		}
	}
	if got := outgoing(1, 65535); !strings.Contains(got, "ip_local_reserved_ports=1-65535") {
		t.Errorf("ports of outgoing connections: %q", got)
	}
	if got := outgoing(1, 2); got != "" {
		t.Errorf("ports far from those of outgoing connections: %q", got)
	}
}

func TestTracing(t *testing.T) {
	file := t.TempDir() + "/ptrace_scope"
	for scope, remedy := range map[string]string{"": "", "0\n": "", "1\n": "", "2\n": "sysctl kernel.yama.ptrace_scope=1", "3\n": "boot"} {
		if scope != "" {
			if err := os.WriteFile(file, []byte(scope), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, bad := checkTracing(file); (bad != nil) != (remedy != "") || bad != nil && !strings.Contains(bad.Remedy, remedy) {
				t.Errorf("%q: %+v", scope, bad)
			}
		} else if _, bad := checkTracing(file + "-none"); bad != nil {
			t.Errorf("a kernel without it: %+v", bad)
		}
	}
}

func TestClock(t *testing.T) {
	past := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		now  time.Time
		ok   bool
	}{
		{"After", past.Add(time.Hour), true},
		{"ALittleBefore", past.Add(-time.Hour), true},
		{"LongBefore", past.Add(-72 * time.Hour), false},
		{"Epoch", time.Unix(0, 0), false},
	} {
		if _, bad := checkClock(c.now, past); (bad == nil) != c.ok {
			t.Errorf("%s: got %+v", c.name, bad)
		}
	}
}
