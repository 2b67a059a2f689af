package vswitch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	if len(d) == 0 {
		return 0
	}
	return d[len(d)/2]
}

func TestDelay(t *testing.T) {
	needTAPs(t)
	for _, c := range []struct {
		there, back time.Duration
		segment     bool
	}{
		{0, 0, true},
		{time.Millisecond, 10 * time.Millisecond, true},
		{time.Millisecond, 10 * time.Millisecond, false},
		{100 * time.Millisecond, 0, true},
	} {
		t.Run(c.there.String()+"And"+c.back.String(), func(t *testing.T) {
			k, _, _ := newKeeper(t)
			a, b := newHost(t, 1, c.segment), newHost(t, 2, c.segment)
			lanOf(t, k, []Path{
				{From: []string{"p1"}, To: []string{"p2"}, Delay: c.there},
				{From: []string{"p2"}, Delay: c.back},
			}, a, b)
			for _, way := range []struct {
				from, to *host
				want     time.Duration
			}{{a, b, c.there}, {b, a, c.back}} {
				within(t, func() error {
					took := probe(t, way.from, way.to, 51, time.Millisecond)
					if len(took) == 0 {
						return errors.New("nothing arrived")
					}
					got, least := median(took), slices.Min(took)
					t.Logf("%s: %d arrived, median %s, least %s, most %s", way.want, len(took), got, least, took[len(took)-1])
					if least < way.want {
						t.Fatalf("one after %s, want %s", least, way.want)
					}
					// What a busy host holds up is late; the least is the relay's own time.
					if len(took) < 51 || least > way.want+300*time.Microsecond || got > 2*way.want+20*time.Millisecond {
						return fmt.Errorf("%d of 51 arrived, median %s, least %s, want %s", len(took), got, least, way.want)
					}
					return nil
				})
			}
		})
	}
}

// within tries some times: what takes time can be held up by all else that runs on
// the host. One good time shows that it is not the relay.
func within(t *testing.T, try func() error) {
	t.Helper()
	for tries := 1; ; tries++ {
		err := try()
		if err == nil {
			return
		}
		if t.Log(err); tries == 20 {
			t.Error("never as it should be")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// burst sends n packets of so many bytes in little heaps, about so many a second.
func burst(c *net.UDPConn, n, bytes, perSecond int) {
	heap := min(20, max(1, perSecond/200))
	b := make([]byte, bytes)
	start := time.Now()
	for i := range n {
		c.Write(b)
		if i%heap == 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		}
	}
}

func TestLoss(t *testing.T) {
	k, _, _ := newKeeper(t)
	var hosts []*host
	for n := range 3 {
		hosts = append(hosts, newHost(t, n+1, true))
	}
	want := map[string]float64{"p1": 0.1, "p2": 0.01, "p3": 0.05}
	var paths []Path
	for id, loss := range want {
		paths = append(paths, Path{To: []string{id}, Loss: loss})
	}
	lanOf(t, k, paths, hosts...)
	const n = 4000
	for i, to := range hosts {
		from := hosts[(i+1)%len(hosts)]
		probe(t, from, to, 1, 0)
		burst(from.dialUDP(to, 9), n, 100, 30000)
	}
	time.Sleep(50 * time.Millisecond)
	counts, err := k.Counters(t.Context())
	must(t, err)
	for id, loss := range want {
		c := counts["lan"][id]
		all := float64(c.Lost + c.OutPackets)
		got, far := float64(c.Lost)/all, 5*math.Sqrt(loss*(1-loss)/all)
		t.Logf("%s: %.2f %% of %.0f lost", id, 100*got, all)
		if all < n/10 || math.Abs(got-loss) > far || c.Full+c.Bad > 0 {
			t.Errorf("%s: %.2f %% lost, want %.2f±%.2f: %+v", id, 100*got, 100*loss, 100*far, c)
		}
	}
}

// Each direction has its own rate, and is as fast as that.
func TestRate(t *testing.T) {
	k, _, _ := newKeeper(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	for _, c := range []struct{ there, back int64 }{{1e6, 10e6}, {100e6, 1e6}} {
		lanOf(t, k, []Path{{To: []string{"p2"}, Rate: c.there}, {To: []string{"p1"}, Rate: c.back}}, a, b)
		for _, way := range []struct {
			from, to *host
			rate     int64
		}{{a, b, c.there}, {b, a, c.back}} {
			within(t, func() error {
				got := measure(t, way.from, way.to, way.rate)
				t.Logf("%d bit/s: %.0f", way.rate, got)
				if !(math.Abs(got/float64(way.rate)-1) <= 0.03) {
					return fmt.Errorf("%.0f bit/s, want %d", got, way.rate)
				}
				return nil
			})
		}
	}
}

// measure sends half as much again as the rate lets through, and says how much
// came, in bit/s of whole frames.
func measure(t testing.TB, from, to *host, rate int64) float64 {
	t.Helper()
	probe(t, from, to, 1, 0)
	const payload = 1458 // 1500 bytes with all headers
	in := to.udp(7002)
	defer in.Close()
	perSecond := int(rate * 3 / 2 / 8 / 1500)
	n := max(perSecond/6, 50)
	done := make(chan struct{})
	go func() {
		defer close(done)
		burst(from.dialUDP(to, 7002), n, payload, perSecond)
		time.Sleep(200 * time.Millisecond)
		in.SetReadDeadline(time.Now())
	}()
	defer func() { <-done }()
	var first, last time.Time
	b := make([]byte, 2000)
	for got := 0; ; got++ {
		if _, err := in.Read(b); err != nil {
			return float64(got-1) * 1500 * 8 / last.Sub(first).Seconds()
		}
		if last = time.Now(); got == 0 {
			first = last
		}
	}
}

// Each pair of a LAN has a delay of its own.
func TestPairsThatDiffer(t *testing.T) {
	k, _, _ := newKeeper(t)
	var hosts []*host
	for n := range 4 {
		hosts = append(hosts, newHost(t, n+1, true))
	}
	var paths []Path
	delay := func(i, j int) time.Duration { return time.Duration(1+4*i+j) * time.Millisecond }
	for i := range hosts {
		for j := range hosts {
			paths = append(paths, Path{From: []string{hosts[i].port().ID}, To: []string{hosts[j].port().ID}, Delay: delay(i, j)})
		}
	}
	lanOf(t, k, paths, hosts...)
	for i, from := range hosts {
		for j, to := range hosts {
			if i == j {
				continue
			}
			want := delay(i, j)
			within(t, func() error {
				took := probe(t, from, to, 21, time.Millisecond)
				if len(took) == 0 {
					return errors.New("nothing arrived")
				}
				// The next pair's is a millisecond longer.
				if got := slices.Min(took); got < want || got > want+700*time.Microsecond {
					return fmt.Errorf("%d to %d: %s, want %s", i+1, j+1, got, want)
				}
				return nil
			})
		}
	}
}

// stream sends as much as goes through TCP in so much time, and says how much
// that was, in bit/s.
func stream(t testing.TB, from, to *host, length time.Duration) float64 {
	t.Helper()
	var l net.Listener
	must(t, to.do(func() (err error) { l, err = net.Listen("tcp4", to.at(7003)); return err }))
	defer l.Close()
	var out net.Conn
	must(t, from.do(func() (err error) { out, err = net.DialTimeout("tcp4", to.at(7003), 5*time.Second); return err }))
	defer out.Close()
	in, err := l.Accept()
	must(t, err)
	defer in.Close()
	start := time.Now()
	out.SetWriteDeadline(start.Add(length))
	go func() {
		b := make([]byte, 256<<10)
		for {
			if _, err := out.Write(b); err != nil {
				out.Close()
				return
			}
		}
	}()
	b, got := make([]byte, 256<<10), 0
	for {
		in.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := in.Read(b)
		if got += n; err != nil {
			return float64(got) * 8 / time.Since(start).Seconds()
		}
	}
}

func TestTCP(t *testing.T) {
	needTAPs(t)
	for _, c := range []struct {
		rule    string
		segment bool
		path    Path
		most    float64 // bit/s
	}{
		{"Segments", false, Path{Delay: time.Millisecond}, 1e12},
		{"Frames", true, Path{Delay: time.Millisecond}, 1e12},
		{"FramesWithLoss", true, Path{Delay: time.Millisecond, Loss: 0.001}, 1e12},
		{"FramesWithRate", true, Path{Delay: time.Millisecond, Rate: 50e6}, 51e6},
	} {
		t.Run(c.rule, func(t *testing.T) {
			k, _, _ := newKeeper(t)
			a, b := newHost(t, 1, c.segment), newHost(t, 2, c.segment)
			lanOf(t, k, []Path{c.path}, a, b)
			probe(t, a, b, 1, 0)
			got := stream(t, a, b, 250*time.Millisecond)
			counts, err := k.Counters(t.Context())
			must(t, err)
			p := counts["lan"]["p2"]
			t.Logf("%.0f Mbit/s, %+v", got/1e6, p)
			if got < 1e6 || got > c.most { // how fast is for benchmarks
				t.Errorf("%.0f bit/s, want at most %.0f", got, c.most)
			}
			if mean := p.OutBytes / p.OutPackets; mean > 1514+66 {
				t.Errorf("%d bytes a frame", mean)
			}
		})
	}
}

// The relay dies under traffic: flows come back, nothing is left of it.
func TestRelayIsReplacedUnderTraffic(t *testing.T) {
	k, pids, log := newKeeper(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	lanOf(t, k, []Path{{Delay: 5 * time.Millisecond}}, a, b)
	pid := <-pids
	probe(t, a, b, 1, 0)
	before := descriptors(t, os.Getpid())
	var memory [2]runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory[0])
	in, out := b.udp(7004), a.dialUDP(b, 7004)
	stop := make(chan struct{})
	go func() {
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				out.Write([]byte("x"))
			case <-stop:
				return
			}
		}
	}()
	buffer, best := make([]byte, 10), time.Hour
	for round := range 3 {
		in.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := in.Read(buffer)
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		died := time.Now()
		time.Sleep(20 * time.Millisecond)
		for err == nil { // what was on its way
			in.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			_, err = in.Read(buffer)
		}
		in.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = in.Read(buffer)
		must(t, err)
		took := time.Since(died)
		t.Logf("round %d: away for %s", round+1, took)
		best = min(best, took)
		pid = <-pids
	}
	if best > time.Second {
		t.Errorf("the flow never came back before %s", best)
	}
	close(stop)
	must(t, errors.Join(in.Close(), out.Close()))
	runtime.GC()
	runtime.ReadMemStats(&memory[1])
	if more := int(memory[1].HeapAlloc) - int(memory[0].HeapAlloc); more > 1<<20 {
		t.Errorf("%d bytes more than before", more)
	}
	if now := descriptors(t, os.Getpid()); now > before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
	if text := log.String(); strings.Count(text, "the relay died and is started again") != 3 || !strings.Contains(text, "killed") {
		t.Errorf("the log tells nothing of it: %s", text)
	}
}

// stopAll stops a process and waits until all its threads have stopped.
func stopAll(t testing.TB, pid int) {
	t.Helper()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	for range 1000 {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		must(t, err)
		stopped := 0
		for _, f := range files {
			text, _ := os.ReadFile(f) // a thread may have ended
			if _, state, ok := strings.Cut(string(text), ") "); !ok || state[0] == 'T' {
				stopped++
			}
		}
		if stopped == len(files) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the process does not stop")
}

// Whoever floods holds nobody up for more than its turn: of a full card's frames a
// few go before the one of another, and fewer if each goes to many.
func TestTurns(t *testing.T) {
	needTAPs(t)
	for name, c := range map[string]struct{ others, most int }{"ToOne": {0, 3 * turnReads}, "ToMany": {turnWrites + 10, 4}} {
		t.Run(name, func(t *testing.T) {
			k, pids, _ := newKeeper(t)
			flooder, other, to := newHost(t, 1, true), newHost(t, 2, true), newHost(t, 3, true)
			l := Link{ID: "lan", Ports: []Port{flooder.port(), other.port(), to.port()}}
			for i := range c.others {
				l.Ports = append(l.Ports, Port{fmt.Sprint("o", i), func() (f *os.File, err error) {
					err = other.do(func() error { f, err = OpenTAP(fmt.Sprint("o", i), true); return err })
					return f, err
				}, 1500})
			}
			must(t, k.Put(t.Context(), l))
			pid := <-pids
			probe(t, flooder, to, 1, 0)
			probe(t, other, to, 1, 0)
			in, many, one := to.udpAt("0.0.0.0:7005"), flooder.dialUDP(to, 7005), other.dialUDP(to, 7005)
			if c.others > 0 {
				many = flooder.dialUDPAt("10.9.255.255:7005")
			}
			for range 2 {
				stopAll(t, pid)
				for range 400 {
					many.Write([]byte("many"))
				}
				one.Write([]byte("one"))
				must(t, syscall.Kill(pid, syscall.SIGCONT))
				b, place := make([]byte, 10), -1
				in.SetReadDeadline(time.Now().Add(5 * time.Second))
				for i := range 401 {
					n, err := in.Read(b)
					must(t, err)
					if string(b[:n]) == "one" {
						place = i
					}
				}
				if place < 0 || place > c.most {
					t.Errorf("it came in place %d", place)
				}
			}
		})
	}
}

// What floods between two does not take the room of others.
func TestFloodOfOthers(t *testing.T) {
	k, _, _ := newKeeper(t)
	var hosts []*host
	for n := range 4 {
		hosts = append(hosts, newHost(t, n+1, true))
	}
	const delay = 5 * time.Millisecond
	lanOf(t, k, []Path{{To: []string{"p2"}, Delay: delay, Rate: 10e6}, {To: []string{"p4"}, Delay: delay, Rate: 10e6}}, hosts...)
	stop := flood(t, hosts[0], hosts[1])
	defer stop()
	within(t, func() error {
		took := probe(t, hosts[2], hosts[3], 200, time.Millisecond)
		if len(took) < 190 {
			return fmt.Errorf("%d of 200 arrived", len(took))
		}
		t.Logf("median %s, most %s", median(took), took[len(took)-1]) // a figure: the flood takes the processor
		return nil
	})
	counts, err := k.Counters(t.Context())
	must(t, err)
	if p := counts["lan"]; p["p4"].Full > 0 || p["p2"].Full == 0 {
		t.Errorf("%+v", p)
	}
}

// flood sends as much as goes until it is stopped.
func flood(t testing.TB, from, to *host) (stop func()) {
	t.Helper()
	probe(t, from, to, 1, 0)
	out := from.dialUDP(to, 9)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1400)
		for {
			select {
			case <-over:
				return
			default:
				out.Write(b)
			}
		}
	}()
	return func() { close(over); <-ended }
}

// Root in a node can hand its card any frame, with any header that its kernel
// lets through.
func TestMadFramesOfANode(t *testing.T) {
	for _, segment := range []bool{true, false} {
		k, pids, _ := newKeeper(t)
		a, b := newHost(t, 1, segment), newHost(t, 2, segment)
		lanOf(t, k, []Path{{Delay: time.Millisecond}}, a, b)
		<-pids
		probe(t, a, b, 1, 0)
		var fd int
		to := &unix.SockaddrLinklayer{Halen: 6}
		must(t, a.do(func() (err error) {
			i, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			to.Ifindex = i.Index
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			return err
		}))
		defer unix.Close(fd)
		must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
		random, sent := rand.New(rand.NewPCG(1, 2)), 0
		pick := func(v ...int) int { return v[random.IntN(len(v))] }
		frames := [][]byte{tcp4(0, 30000), tcp4(1, 9000), tcp4(0, 100), tcp6(20000), tcp6(8000, unix.IPPROTO_DSTOPTS), make([]byte, 14), make([]byte, 15)}
		for range 6000 {
			f := slices.Clone(frames[random.IntN(len(frames))])
			for range random.IntN(3) {
				f[random.IntN(min(len(f), 80))] = byte(random.Uint32())
			}
			h := head{byte(pick(0, 1, 1, 2, 255)), byte(pick(0, 1, 1, 4, 4, 0x81, 3, 5)), uint16(pick(0, 54, 74, 65535)),
				uint16(pick(0, 1, 7, 8, 536, 1448, 1460, 9000, 65535)), uint16(pick(34, 38, 54, 70, 0, 65535)), uint16(pick(16, 16, 6, 0, 65535))}
			if unix.Sendto(fd, append(h.bytes(), f...), 0, to) == nil {
				sent++
			}
		}
		if got := len(probe(t, a, b, 5, 0)); got == 0 || sent == 0 || len(pids) > 0 {
			t.Errorf("%d mad frames went in, then %d of 5 arrived, %d relays died", sent, got, len(pids))
		}
		counts, err := k.Counters(t.Context())
		must(t, err)
		if p := counts["lan"]; p["p1"].Bad == 0 || p["p2"].Bad > 0 {
			t.Errorf("of %d nothing was dropped, or the kernel took less than was passed on: %+v", sent, p)
		}
	}
}
