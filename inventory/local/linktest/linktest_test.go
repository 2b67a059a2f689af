package linktest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// serve starts a server on the loopback and returns its address.
func serve(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, "127.0.0.1:0", func(a net.Addr) { at <- a.String() }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	select {
	case addr := <-at:
		return addr
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return ""
}

func TestAllPartsOnLoopback(t *testing.T) {
	addr := serve(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{addr, "--time", "200ms", "--udp=4M", "--json"}, &out); err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.TCP == nil || r.Delay == nil || r.UDP == nil || r.Bursts == nil {
		t.Fatalf("parts are missing: %s", &out)
	}
	for way, s := range map[string]Stream{"out": r.TCP.Out, "in": r.TCP.In} {
		if s.Goodput < 10e6 || s.Line <= s.Goodput {
			t.Errorf("TCP %s: %+v", way, s)
		}
	}
	if d := r.Delay; d.Answered == 0 || d.Trip.Median <= 0 || d.Trip.Median > 100 || d.Trip.P95 < d.Trip.Median || d.Out == nil || d.In == nil {
		t.Errorf("delay: %+v", r.Delay)
	}
	for name, y := range map[string]DatagramStats{"udp out": r.UDP.Out, "udp in": r.UDP.In, "bursts out": r.Bursts.Out, "bursts in": r.Bursts.In} {
		if y.Sent < 50 || y.Received+y.Overflow < y.Sent || y.Twice > 0 {
			t.Errorf("%s: %+v", name, y)
		}
		// A delayed sender does not catch up.
		if name[0] == 'u' && y.Rate > 1.5*4e6 {
			t.Errorf("%s: came with %.0f bit/s", name, y.Rate)
		}
	}
	out.Reset()
	if err := r.Print(&out); err != nil || strings.Count(out.String(), "\n") != 8 {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestTwoClientsAtOnce(t *testing.T) {
	addr := serve(t)
	results := make(chan error, 2)
	for range 2 {
		go func() {
			r, err := Measure(t.Context(), addr, Options{Time: 200 * time.Millisecond, Rate: 2e6, Only: []string{PartUDP}})
			if err == nil && (r.UDP.Out.Received+r.UDP.Out.Overflow < r.UDP.Out.Sent || r.UDP.Out.Twice > 0) {
				t.Errorf("%+v", r.UDP.Out)
			}
			results <- err
		}()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestTallyCountsLossAndRuns(t *testing.T) {
	for _, tt := range []struct {
		name      string
		came      string // one character a number, from 0 on: x received, 2 received twice
		sent      int
		loss, run float64
		received  int
		twice     int
	}{
		{"all", "xxxx", 4, 0, 0, 4, 0},
		{"none", "....", 4, 100, 4, 0, 0},
		{"single ones", "x.x.x.xx.x", 10, 40, 1, 6, 0},
		{"one run", "xx....xxxx", 10, 40, 4, 6, 0},
		{"at both ends", ".xx.", 4, 50, 1, 2, 0},
		{"twice counts once", "x2x.", 4, 25, 1, 3, 1},
		{"not sent is not lost", "xx........", 2, 0, 0, 2, 0},
		{"nothing sent", "", 0, 0, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCounter(100, 0)
			for i, r := range tt.came {
				for range map[rune]int{'x': 1, '2': 2}[r] {
					c.add(uint64(i), time.Unix(0, int64(i)))
				}
			}
			c.add(100, time.Unix(1, 0)) // numbers out of range
			c.add(math.MaxUint64, time.Unix(1, 0))
			got := c.tally(tt.sent, 100)
			if got.Loss != tt.loss || got.Run != tt.run || got.Received != tt.received || got.Twice != tt.twice {
				t.Errorf("got %+v, want %+v", got, tt)
			}
		})
	}
}

func TestRateOfReceivedPackets(t *testing.T) {
	c := newCounter(1000, 100*time.Millisecond)
	for i := range 1000 { // a burst, and then one each millisecond
		at := time.Unix(1, 0)
		if i >= 500 {
			at = at.Add(time.Duration(i-500) * time.Millisecond)
		}
		c.add(uint64(i), at)
	}
	if got := c.tally(1000, 125).Rate; math.Abs(got-1e6) > 1 {
		t.Errorf("%v bit/s, want 1e6: the burst at the beginning does not count", got)
	}
}

func TestStreamRatesCountHeaders(t *testing.T) {
	for _, tt := range []struct {
		peer   string
		stamps bool
		frame  float64
	}{
		{"10.0.0.1", true, 1514}, {"10.0.0.1", false, 1502}, {"::ffff:10.0.0.1", true, 1514}, {"fd00::1", true, 1534},
	} {
		s := stream{Bytes: 1448 * 1000, Segments: 1000, Time: time.Second, Segment: 1448, Stamps: tt.stamps}
		goodput, line := s.rates(netip.MustParseAddr(tt.peer))
		if goodput != 1448*8000 || math.Abs(line-tt.frame*8000) > 1e-3 {
			t.Errorf("%s: %v and %v, want frames of %v bytes", tt.peer, goodput, line, tt.frame)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	for _, tt := range []struct{ words, want string }{
		{"", "the address to measure"},
		{"a b", "the address to measure"},
		{"serve a b", "serve takes at most one address"},
		{"serve --time 1s", "serve takes at most one address"},
		{"a --nonsense", "--help"},
		{"a --udp 10X", "is not a rate"},
		{"a --udp NaN", "is not a rate"},
		{"a --udp -1M", "is not a rate"},
		{"a --udp 1000G", "is not a rate"},
		{"a --time 1h", "the time is not"},
		{"a --time 1ms", "the time is not"},
		{"a --only tcp,nothing", `unknown part "nothing"`},
		{"a --udp 1M --size 10", "the size"},
		{"127.0.0.1:1 --time 1s", "patchbay-linktest serve"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(tt.words), &out)
		if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%q: %v, %s; want %q", tt.words, err, &out, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out); err != nil || !strings.Contains(out.String(), "7373") {
		t.Errorf("help: %v, %s", err, &out)
	}
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"": ":7373", "server": "server:7373", "server:80": "server:80", "10.0.0.1": "10.0.0.1:7373",
		"fd00::1": "[fd00::1]:7373", "[fd00::1]": "[fd00::1]:7373", "[fd00::1]:80": "[fd00::1]:80",
	} {
		if got := withPort(addr); got != want {
			t.Errorf("%q is %q, want %q", addr, got, want)
		}
	}
}
