package linktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local/netspace"
)

func TestDelayOfPing(t *testing.T) {
	const head = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\n--- 10.0.0.1 ping statistics ---\n"
	for _, tt := range []struct {
		name, text string
		want       Delay
		ok         bool
	}{
		{"All", head + "4 packets transmitted, 4 received, 0% packet loss, time 30ms\nrtt min/avg/max/mdev = 1.100/2.200/3.300/0.400 ms, pipe 2\n", Delay{4, 4, 0, 1.1, 2.2, 3.3}, true},
		{"Lost", head + "4 packets transmitted, 3 received, +1 duplicates, +1 errors, 25% packet loss, time 30ms\nrtt min/avg/max/mdev = 1.100/2.200/3.300/0.400 ms\n", Delay{4, 3, 25, 1.1, 2.2, 3.3}, true},
		{"AllLost", head + "4 packets transmitted, 0 received, 100% packet loss, time 30ms\n\n", Delay{4, 0, 100, 0, 0, 0}, true},
		{"Nothing", "", Delay{}, false},
		{"NoneSent", "0 packets transmitted, 0 received, 0% packet loss, time 0ms\n", Delay{}, false},
		{"MoreThanSent", "1 packets transmitted, 2 received, 0% packet loss\nrtt min/avg/max/mdev = 1.0/2.0/3.0/0.4 ms\n", Delay{}, false},
		{"NoTimes", "1 packets transmitted, 1 received, 0% packet loss\n", Delay{}, false},
		{"NoNumbers", "1 packets transmitted, 1 received, 0% packet loss\nrtt min/avg/max/mdev = nan/inf/-1.0/0 ms\n", Delay{}, false},
		{"LongNumbers", strings.Repeat("9", 400) + " packets transmitted, 1 received,\n", Delay{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := parseDelay(tt.text); ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestStreamOfIperf(t *testing.T) {
	answer := func(mss, rate string) string {
		return `{"start":{"tcp_mss_default":` + mss + `},"end":{"sum_sent":{"bits_per_second":9e9},"sum_received":{"bits_per_second":` + rate + `}}}`
	}
	const unknown = "the output of iperf3 is not understood"
	failed := errors.New("exit status 1")
	for _, tt := range []struct {
		name, text string
		v6         bool
		end        error
		want       Stream
		err        string
	}{
		{"IPv4", answer("1448", "1448e3"), false, nil, Stream{1448e3, 1514e3}, "<nil>"},
		{"IPv6", answer("1428", "1428e3"), true, nil, Stream{1428e3, 1514e3}, "<nil>"},
		{"Refused", `{"start":{},"end":{},"error":"unable to connect to server: Connection refused"}`, false, failed, Stream{}, "unable to connect to server: Connection refused"},
		{"ControlsTerminal", `{"error":"a\u001b[2J\nb"}`, false, failed, Stream{}, "a [2J b"},
		{"LongError", `{"error":"` + strings.Repeat("x", 1000) + `"}`, false, failed, Stream{}, strings.Repeat("x", 200)},
		{"Failed", answer("1448", "1"), false, failed, Stream{}, "exit status 1"},
		{"Nothing", "", false, nil, Stream{}, unknown},
		{"NoJSON", "iperf 3.12", false, nil, Stream{}, unknown},
		{"NoRate", `{"start":{"tcp_mss_default":1448},"end":{}}`, false, nil, Stream{}, unknown},
		{"NegativeRate", answer("1448", "-1"), false, nil, Stream{}, unknown},
		{"AbsurdRate", answer("1448", "1e300"), false, nil, Stream{}, unknown},
		{"InfiniteRate", answer("1448", "1e999"), false, nil, Stream{}, unknown},
		{"TextForRate", answer("1448", `"1"`), false, nil, Stream{}, unknown},
		{"NoSegments", answer("0", "1"), false, nil, Stream{}, unknown},
		{"NegativeSegments", answer("-66", "1"), false, nil, Stream{}, unknown},
		{"AbsurdSegments", answer("65536", "1"), false, nil, Stream{}, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStream([]byte(tt.text), tt.v6, tt.end)
			if got != tt.want || fmt.Sprint(err) != tt.err {
				t.Errorf("got %+v, %v; want %+v, %s", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	for _, tt := range []struct {
		r    Result
		want string
	}{
		{Result{PerDirection{Stream{9.5e6, 10e6}, Stream{1.9e9, 2e9}}, Delay{300, 297, 1, 4, 4.25, 5}}, `
                 there          back
TCP              9.50 Mbit/s    1.90 Gbit/s
  with headers   10.00 Mbit/s   2.00 Gbit/s
there and back   4.25 ms (least 4.00, most 5.00)
  lost           1.00% of 300 echoes
`},
		{Result{PerDirection{Stream{95e3, 100e3}, Stream{95e3, 100e3}}, Delay{300, 0, 100, 0, 0, 0}}, `
                 there          back
TCP              95.0 kbit/s    95.0 kbit/s
  with headers   100.0 kbit/s   100.0 kbit/s
  lost           100.00% of 300 echoes
`},
	} {
		var out bytes.Buffer
		if err := tt.r.Print(&out); err != nil || "\n"+out.String() != tt.want {
			t.Errorf("%v\n%s\nwant%s", err, out.String(), tt.want)
		}
	}
}

// TestMeasure measures the loopback interface of a network of its own, with the real programs.
func TestMeasure(t *testing.T) {
	require.NetNS(t)
	for _, program := range []string{"ip", "ping", "iperf3"} {
		require.Tool(t, program)
	}
	space, err := netspace.New()
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	n, lo := Node{Network: space, Base: 1_000_000}, netip.MustParseAddr("127.0.0.1")
	var taken net.Listener
	if err := netspace.Inside(space, func() (err error) {
		out, err := exec.Command("sh", "-ec", "ip link set lo up; echo 0 2000000 >/proc/sys/net/ipv4/ping_group_range").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		taken, err = net.Listen("tcp", "127.0.0.1:"+port)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// Root of a node may listen before iperf3 does.
	if _, err := Measure(t.Context(), n, n, lo, time.Second); err == nil || !strings.Contains(err.Error(), "the server of iperf3 does not start") || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("a port in use: %v", err)
	}
	taken.Close()
	r, err := Measure(t.Context(), n, n, lo, time.Second)
	if s := r.TCP; err != nil || s.Out.Goodput < 1e6 || s.In.Goodput < 1e6 || s.Out.Line <= s.Out.Goodput || r.Delay.Sent != 100 || r.Delay.Answered == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Measure(t.Context(), n, n, netip.MustParseAddr("192.0.2.1"), time.Second); err == nil || !strings.Contains(err.Error(), "cannot ping 192.0.2.1") || !strings.Contains(err.Error(), "Network is unreachable") {
		t.Errorf("without a route: %v", err)
	}
}

// TestConfined runs lines of a shell, as a node could that has taken over ping or iperf3.
func TestConfined(t *testing.T) {
	require.NetNS(t)
	space, err := netspace.New()
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	if err := os.WriteFile("/tmp/patchbay-linktest", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove("/tmp/patchbay-linktest")
	n := Node{Network: space, Base: 1_000_000}
	for _, tt := range []struct{ name, line, want string }{
		{"User", "id -u; id -g; id -G", "1065534\n1065534\n1065534\n"},
		{"Files", "ls -d /usr/bin /etc /home /proc /dev/* /run /tmp/*", "/dev/urandom\n/usr/bin\n"},
		{"Process", "echo $$", "1\n"},
		{"WriteUsr", "echo >/usr/x && echo written", ""},
		{"WriteRoot", "echo >/x && echo written", ""},
		{"WriteTmp", "echo kept >/tmp/x; read a </tmp/x; echo $a", "kept\n"},
		{"FillTmp", "head -c 5000000 /usr/bin/bash /usr/bin/perl >/tmp/x && echo written", ""},
		{"Environment", "env -u _ -u PWD -u SHLVL -u OLDPWD | sort", "LC_ALL=C\nPATH=/usr/sbin:/usr/bin\nTMPDIR=/tmp\n"},
		{"Namespaces", "unshare --user true && echo made", ""},
		{"SetUID", "setpriv --reuid 0 true && echo set", ""},
		{"Network", "ping -c 1 -W 1 127.0.0.1 >/tmp/x || echo unreachable", "unreachable\n"}, // lo of the new network is off
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, complaint := newOutput(""), newOutput("")
			err := n.run(t.Context(), out, complaint, "bash", "-c", tt.line) // some lines fail
			if got := out.text.String(); got != tt.want {
				t.Errorf("%s: %q, want %q; %v: %s", tt.line, got, tt.want, err, complaint.text.String())
			}
		})
	}
	t.Run("Output", func(t *testing.T) {
		out := newOutput("")
		if err := n.run(t.Context(), out, out, "yes"); err == nil || out.text.Len() > maxOutput {
			t.Errorf("%v, with %d bytes", err, out.text.Len())
		}
	})
	t.Run("Time", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := n.run(ctx, newOutput(""), newOutput(""), "sleep", "60"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("Missing", func(t *testing.T) {
		packages["nosuchprogram"] = "nosuchpackage"
		defer delete(packages, "nosuchprogram")
		if err := n.run(t.Context(), newOutput(""), newOutput(""), "nosuchprogram"); err == nil || err.Error() != "this host has no nosuchprogram; type: apt install nosuchpackage" {
			t.Error(err)
		}
	})
}
