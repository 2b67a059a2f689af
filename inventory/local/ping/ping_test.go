package ping

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		rule, line string
		want       options // where err is empty
		err        string
	}{
		{"Defaults", "h", options{interval: time.Second, wait: 10 * time.Second, size: 56, host: "h"}, ""},
		{"HostFirst", "h -c 3 -i0.2", options{count: 3, interval: 200 * time.Millisecond, wait: 10 * time.Second, size: 56, host: "h"}, ""},
		{"FlagsTogether", "-nqc5 -W 1 -w2 -s 0 -t 3 -I eth1 -6v h", options{count: 5, interval: time.Second, wait: time.Second, deadline: 2 * time.Second, ttl: 3,
			from: "eth1", family: '6', quiet: true, host: "h"}, ""},
		{"NoHost", "-c 1", options{}, "usage: ping"},
		{"TwoHosts", "a b", options{}, "usage: ping"},
		{"UnknownOption", "-f h", options{}, "invalid option -- 'f'"},
		{"NoValue", "h -c", options{}, "option -c needs a value"},
		{"CountZero", "-c 0 h", options{}, "out of range: 1 <= value"},
		{"LargestSize", "-s 65508 h", options{}, "out of range: 0 <= value <= 65507"},
		{"NoNumber", "-c x h", options{}, "invalid argument: 'x'"},
		{"NoTime", "-i -1 h", options{}, "bad timing interval: -1"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := parse(strings.Fields(tt.line))
			switch {
			case tt.err == "" && (err != nil || *got != tt.want):
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

// The output has the form that scripts know from iputils.
func TestOutputMatchesIputils(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	p := &pinger{options: &options{host: "b"}, out: &out, name: "b (10.0.0.2)", begun: now, sent: 5, done: map[uint16]bool{},
		left: map[uint16]time.Time{1: now.Add(-1500 * time.Microsecond), 2: now.Add(-500 * time.Microsecond), 3: now, 4: now, 5: now}}
	by := netip.MustParseAddr("10.0.0.1")
	for _, a := range []*answer{
		{number: 1, size: 64, ttl: 63}, {number: 2, size: 64, ttl: 64}, {number: 2, size: 64, ttl: 64}, {number: 9, size: 64},
		{number: 3, from: by, wrong: "Destination Host Unreachable"}, {number: 3, from: by, wrong: "Destination Host Unreachable"},
	} {
		p.handle(a, now)
	}
	p.statistics()
	got, _, _ := strings.Cut(out.String(), ", time ")
	const want = `64 bytes from b (10.0.0.2): icmp_seq=1 ttl=63 time=1.50 ms
64 bytes from b (10.0.0.2): icmp_seq=2 ttl=64 time=0.500 ms
64 bytes from b (10.0.0.2): icmp_seq=2 ttl=64 (DUP!)
From 10.0.0.1 icmp_seq=3 Destination Host Unreachable

--- b ping statistics ---
5 packets transmitted, 2 received, +1 duplicates, +1 errors, 60% packet loss`
	if got != want || !strings.HasSuffix(out.String(), "ms\nrtt min/avg/max/mdev = 0.500/1.000/1.500/0.500 ms\n") {
		t.Errorf("%s", out.String())
	}
	if got := milliseconds(12.34) + " " + milliseconds(123.4); got != "12.3 123" {
		t.Error(got)
	}
}

// TestFloodOfOtherMessages sends messages that are no answers, such as extended echo
// replies. They must not keep ping from continuing.
func TestFloodOfOtherMessages(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	message := append([]byte{43}, make([]byte, 63)...)
	for range 5 {
		if _, err := unix.Write(fds[1], message); err != nil {
			t.Fatal(err)
		}
	}
	a, err := (&socket{fd: fds[0]}).receive(time.Now(), make([]byte, 1024))
	if a != nil || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
	if _, _, err := unix.Recvfrom(fds[0], message, unix.MSG_DONTWAIT); err != nil {
		t.Errorf("it has read on after its time: %v", err)
	}
}

// FuzzExtendedError parses what the kernel returns with a socket error.
func FuzzExtendedError(f *testing.F) {
	f.Add(make([]byte, 32), true)
	f.Add([]byte{111, 0, 0, 0, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 0, 0, 1}, false)
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) { extendedError(b, v6) })
}
