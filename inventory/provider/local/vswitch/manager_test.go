package vswitch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

// descriptors returns the number of open descriptors of a process.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	return len(list)
}

// waitGone waits for the end of a process.
func waitGone(t testing.TB, pid int) {
	t.Helper()
	for range 3000 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives", pid)
}

func TestProcessRunsWhileThereAreLinks(t *testing.T) {
	k, pids, _ := newManager(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	if len(pids) > 0 {
		t.Error("a process without links")
	}
	must(t, k.RemoveLink(t.Context(), "none"))
	lanOf(t, k, nil, a, b)
	pid := <-pids
	probe(t, a, b, 1, 0)
	lanOf(t, k, []Path{{Delay: time.Millisecond}}, a, b)
	probe(t, a, b, 1, 0)
	must(t, k.RemoveLink(t.Context(), "lan"))
	waitGone(t, pid)
	// The device was removed too, so that it can be created again.
	lanOf(t, k, nil, a, b)
	pid = <-pids
	probe(t, a, b, 1, 0)
	must(t, k.Close())
	waitGone(t, pid)
	must(t, k.Close())
	for name, err := range map[string]error{
		"Put": k.SetLink(t.Context(), Link{ID: "x"}), "Remove": k.RemoveLink(t.Context(), "x"),
		"Counters": func() error { _, err := k.Counters(t.Context()); return err }(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	if len(pids) > 0 {
		t.Error("another process was started")
	}
}

func TestNothingLeaks(t *testing.T) {
	k, pids, _ := newManager(t)
	var hosts []*host
	for n := range 5 {
		hosts = append(hosts, newHost(t, n+1, true))
	}
	stays := Link{ID: "stays", Ports: []Port{hosts[0].port()}}
	must(t, k.SetLink(t.Context(), stays))
	pid := <-pids
	before, inside := descriptors(t, os.Getpid()), descriptors(t, pid)
	for range 10 {
		lanOf(t, k, nil, hosts[1:3]...)
		lanOf(t, k, []Path{{Delay: time.Millisecond}}, hosts[1:]...)
		lanOf(t, k, nil, hosts[3:]...)
		must(t, k.RemoveLink(t.Context(), "lan"))
	}
	bad := Link{ID: "bad", Ports: []Port{hosts[1].port(), {ID: "x", MTU: 1500, Open: func() (*os.File, error) { return nil, errors.New("no device") }}}}
	for range 3 {
		if err := k.SetLink(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "link bad: port x: no device") {
			t.Error(err)
		}
	}
	if now := descriptors(t, os.Getpid()); now != before {
		t.Errorf("%d descriptors here, before %d", now, before)
	}
	if now := descriptors(t, pid); now != inside {
		t.Errorf("%d descriptors in the process, before %d", now, inside)
	}
}

func TestInvalidLinks(t *testing.T) {
	k, pids, _ := newManager(t)
	h, fast := newHost(t, 1, true), newHost(t, 2, false)
	null := func() (*os.File, error) { return os.Open(os.DevNull) }
	many := make([]Port, maxPorts+1)
	for i := range many {
		many[i] = Port{fmt.Sprint(i), null, 1500}
	}
	var lists []Path
	for range maxPaths {
		lists = append(lists, Path{})
	}
	one := []Port{h.port()}
	for _, c := range []struct {
		rule string
		link Link
		want string
	}{
		{"NoID", Link{}, "0 bytes"},
		{"LongID", Link{ID: strings.Repeat("x", maxID+1)}, "257 bytes"},
		{"NoPortID", Link{ID: "l", Ports: []Port{{"", null, 1500}}}, "empty"},
		{"PortTwice", Link{ID: "l", Ports: []Port{h.port(), h.port()}}, "duplicate"},
		{"NoOpen", Link{ID: "l", Ports: []Port{{"p", nil, 1500}}}, "no Open"},
		{"NoTAP", Link{ID: "l", Ports: []Port{{"p", null, 1500}}}, "is not a TAP"},
		{"SmallMTU", Link{ID: "l", Ports: []Port{{"p", null, 67}}}, "MTU 67"},
		{"LargeMTU", Link{ID: "l", Ports: []Port{{"p", null, 65536}}}, "MTU 65536"},
		{"TooManyPorts", Link{ID: "l", Ports: many}, "1025 ports"},
		{"TooManyPaths", Link{ID: "l", Paths: append(lists, Path{})}, "8193 paths"},
		{"TooManyPairs", Link{ID: "l", Ports: many[:1000], Paths: lists}, "pairs"},
		{"UnknownPort", Link{ID: "l", Ports: one, Paths: []Path{{From: []string{"q"}}}}, `no port "q"`},
		{"NegativeDelay", Link{ID: "l", Ports: one, Paths: []Path{{Delay: -1}}}, "delay is -1ns"},
		{"LongDelay", Link{ID: "l", Ports: one, Paths: []Path{{Delay: maxDelay + 1}}}, "0 to 10m0s"},
		{"NegativeLoss", Link{ID: "l", Ports: one, Paths: []Path{{Loss: -0.1}}}, "loss is -0.1"},
		{"MoreThanAllLost", Link{ID: "l", Ports: one, Paths: []Path{{Loss: 1.1}}}, "loss is 1.1"},
		{"SlowRate", Link{ID: "l", Ports: one, Paths: []Path{{Rate: 99}}}, "rate is 99"},
		{"NegativeRate", Link{ID: "l", Ports: one, Paths: []Path{{Rate: -1}}}, "rate is -1"},
		{"FastRate", Link{ID: "l", Ports: one, Paths: []Path{{Rate: maxRate + 1}}}, "100000000001"},
		{"LossOfSegments", Link{ID: "l", Ports: []Port{fast.port()}, Paths: []Path{{Loss: 0.1}}}, "segment"},
		{"RateOfSegments", Link{ID: "l", Ports: []Port{fast.port()}, Paths: []Path{{Rate: 1e6}}}, "segment"},
		{"MixedPorts", Link{ID: "l", Ports: []Port{h.port(), fast.port()}}, "some ports were opened with segment"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if err := k.SetLink(t.Context(), c.link); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if len(pids) > 0 {
		t.Error("a process was started")
	}
}

func TestFailedStart(t *testing.T) {
	h := newHost(t, 1, true)
	for name, o := range map[string]Options{
		"NoProgram":    {Program: "/nonexistent"},
		"EndsAtOnce":   {Program: "/bin/true"},
		"CannotPlace":  {Program: "/proc/self/exe", SetLimits: func(int) error { return errors.New("no place") }},
		"IsNotAnybody": {Program: "/proc/self/exe", UID: 1<<32 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := New(o)
			defer k.Close()
			before := descriptors(t, os.Getpid())
			if err := k.SetLink(t.Context(), Link{ID: "l", Ports: []Port{h.port()}}); err == nil {
				t.Error("it was put")
			}
			if now := descriptors(t, os.Getpid()); now > before {
				t.Errorf("%d descriptors, before %d", now, before)
			}
			if all, err := k.Counters(t.Context()); len(all) > 0 || err != nil {
				t.Error(all, err)
			}
		})
	}
}

// A switch process that hangs is killed by the next change, and its successor has that
// change and all others.
func TestHangingVSwitchIsReplacedAtChange(t *testing.T) {
	k, pids, _ := newManager(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	lanOf(t, k, nil, a, b)
	pid := <-pids
	stopProcess(t, pid)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must(t, k.SetLink(ctx, Link{ID: "other", Ports: []Port{newHost(t, 3, true).port()}}))
	waitGone(t, pid)
	if got := len(probe(t, a, b, 3, 0)); got != 3 {
		t.Errorf("%d of 3 arrived", got)
	}
}

// A switch process that hangs without a change is also noticed: its successor forwards
// the frames, and it is logged.
func TestHangingVSwitchIsNoticed(t *testing.T) {
	k, pids, log := newManager(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	lanOf(t, k, nil, a, b)
	pid := <-pids
	stopProcess(t, pid)
	waitGone(t, pid)
	<-pids
	retry(t, func() error {
		if got := len(probe(t, a, b, 3, 0)); got != 3 {
			return fmt.Errorf("%d of 3 arrived", got)
		}
		return nil
	})
	if text := log.String(); !strings.Contains(text, "the vswitch does not answer") {
		t.Errorf("the log does not report it: %s", text)
	}
}

// A compromised switch process can only affect its own slice.
func TestHostileVSwitchAffectsOnlyItsSlice(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		refused    bool
	}{
		{"Long", `{"Error":"` + strings.Repeat("x", maxAnswer) + `"}`, false},
		{"LongWithinBounds", `{"Error":"` + strings.Repeat("x", maxAnswer/2) + `"}`, true},
		{"NoJSON", `{`, false},
		{"Deep", strings.Repeat("[", maxAnswer-1), false},
		{"AnotherType", `{"Counts":7}`, false},
		{"NegativeCounts", `{"Counts":[{"InPackets":-1}]}`, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			ours, file, err := fdsocket.Pair()
			must(t, err)
			p := &process{conn: ours}
			defer ours.Close()
			defer file.Close()
			text := append([]byte{byte(len(c.text) >> 24), byte(len(c.text) >> 16), byte(len(c.text) >> 8), byte(len(c.text))}, c.text...)
			go file.Write(text)
			_, err = p.sendOrder(order{Kind: orderCount})
			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("%.100v", err)
			}
			if _, refused := errors.AsType[*refusedError](err); refused != c.refused {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}

// An interface that is deleted during use ends only its own port, and the next SetLink
// creates it again.
func TestDeletedDevice(t *testing.T) {
	k, pids, _ := newManager(t)
	a, b, c := newHost(t, 1, true), newHost(t, 2, true), newHost(t, 3, true)
	lanOf(t, k, nil, a, b, c)
	pid := <-pids
	probe(t, a, c, 1, 0)
	must(t, c.do(func() error { return deleteLink("eth0") }))
	retry(t, func() error {
		if got := len(probe(t, a, b, 50, time.Millisecond)); got < 45 {
			return fmt.Errorf("%d of 50 arrived between the others", got)
		}
		return nil
	})
	start := time.Now()
	used := cpuOf(t, pid)
	time.Sleep(200 * time.Millisecond)
	if spent := cpuOf(t, pid) - used; spent > time.Since(start)/2 {
		t.Errorf("%s of processor time: it spins", spent)
	}
	lanOf(t, k, nil, a, b, c)
	if got := len(probe(t, a, c, 5, 0)); got == 0 {
		t.Error("nothing arrived at the port that was made again")
	}
	if len(pids) > 0 {
		t.Error("the process was replaced")
	}
}

// A device that is down for some time does not end its port.
func TestDeviceThatIsDownForSomeTime(t *testing.T) {
	k, _, _ := newManager(t)
	a, b := newHost(t, 1, true), newHost(t, 2, true)
	lanOf(t, k, nil, a, b)
	probe(t, a, b, 1, 0)
	must(t, b.do(func() error { return setFlags("eth0", 0) }))
	out := a.dialUDP(b, 9)
	for range 20 {
		out.Write([]byte("x"))
	}
	var p Counters
	for range 3000 { // until the vswitch has tried to use it
		counts, err := k.Counters(t.Context())
		must(t, err)
		if p = counts["lan"]["p2"]; p.Bad > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if p.Bad == 0 {
		t.Errorf("%+v: nothing was refused by the card", p)
	}
	must(t, b.do(func() error { return setFlags("eth0", unix.IFF_UP) }))
	if got := len(probe(t, a, b, 5, 0)); got == 0 {
		t.Error("nothing arrived")
	}
}

// The process ends with its connection, however the Manager ends.
func TestProcessEndsWithItsConnection(t *testing.T) {
	k, pids, _ := newManager(t)
	lanOf(t, k, nil, newHost(t, 1, true), newHost(t, 2, true))
	pid := <-pids
	k.turn <- struct{}{}
	k.process.conn.Close()
	k.unlock()
	waitGone(t, pid)
}

// More ports than files in one message, in one namespace.
func TestManyPorts(t *testing.T) {
	k, pids, _ := newManager(t)
	h := newHost(t, 1, true)
	var ports []Port
	for i := range 2*fdsocket.MaxFiles + 10 {
		ports = append(ports, Port{fmt.Sprint("p", i), func() (f *os.File, err error) {
			err = h.do(func() error { f, err = OpenTAP(fmt.Sprint("t", i), true); return err })
			return f, err
		}, 1500})
	}
	must(t, k.SetLink(t.Context(), Link{ID: "lan", Ports: ports[5:]}))
	must(t, k.SetLink(t.Context(), Link{ID: "lan", Ports: ports, Paths: []Path{{Delay: time.Millisecond}}}))
	counts, err := k.Counters(t.Context())
	if err != nil || len(counts["lan"]) != len(ports) {
		t.Errorf("%d of %d ports are counted: %v", len(counts["lan"]), len(ports), err)
	}
	pid := <-pids
	before := descriptors(t, pid)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	if now := descriptors(t, <-pids); now > before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
}

// Changes, queries and kills at the same time.
func TestConcurrentChangesAndDeaths(t *testing.T) {
	k, pids, _ := newManager(t)
	var all sync.WaitGroup
	for n := range 4 {
		h := newHost(t, n+1, true)
		all.Go(func() {
			for i := range 15 {
				time.Sleep(10 * time.Millisecond)
				l := Link{ID: fmt.Sprint("l", n), Ports: []Port{h.port()}, Paths: []Path{{Delay: time.Duration(i)}}}
				if err := k.SetLink(t.Context(), l); err != nil {
					t.Error(err)
				}
				if _, err := k.Counters(t.Context()); err != nil && !strings.Contains(err.Error(), "vswitch") {
					t.Error(err)
				}
				if i%5 == 4 && n > 0 {
					if err := k.RemoveLink(t.Context(), l.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for deaths := 0; ; {
		select {
		case pid := <-pids:
			if deaths++; deaths < attempts { // one change may fail for all of them
				time.Sleep(50 * time.Millisecond)
				syscall.Kill(pid, syscall.SIGKILL)
			}
			continue
		case <-done:
		}
		break
	}
	k.turn <- struct{}{}
	defer k.unlock()
	if len(k.links) != 1 {
		t.Errorf("%d links, want 1", len(k.links))
	}
}
