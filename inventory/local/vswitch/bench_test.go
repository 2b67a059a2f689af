package vswitch

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// between is two hosts and the relay between them.
func between(b *testing.B, segment bool, p Path) (k *Keeper, pid int, from, to *host) {
	k, pids, _ := newKeeper(b)
	from, to = newHost(b, 1, segment), newHost(b, 2, segment)
	lanOf(b, k, []Path{p}, from, to)
	pid = <-pids
	probe(b, from, to, 1, 0)
	return k, pid, from, to
}

// One TCP stream; the processor is the relay's own, with what the kernel does for
// it in the sender's and receiver's place.
func BenchmarkTCP(b *testing.B) {
	for _, c := range []struct {
		name    string
		segment bool
		path    Path
	}{
		{"SegmentsAtOnce", false, Path{}},
		{"Segments1ms", false, Path{Delay: time.Millisecond}},
		{"Segments10ms", false, Path{Delay: 10 * time.Millisecond}},
		{"FramesAtOnce", true, Path{}},
		{"Frames1ms", true, Path{Delay: time.Millisecond}},
		{"FramesRate1Gbit", true, Path{Delay: time.Millisecond, Rate: 1e9}},
		{"FramesRate100Mbit", true, Path{Delay: time.Millisecond, Rate: 100e6}},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, pid, from, to := between(b, c.segment, c.path)
			used, total := cpuOf(b, pid), 0.0
			for b.Loop() {
				total += stream(b, from, to, 2*time.Second)
			}
			speed := total / float64(b.N)
			spent := (cpuOf(b, pid) - used).Seconds() / (2 * float64(b.N))
			b.ReportMetric(speed/1e9, "Gbit/s")
			b.ReportMetric(100*spent/(speed/100e6), "%cpu/100Mbit/s")
			b.ReportMetric(float64(residentOf(b, pid))/(1<<20), "MB")
		})
	}
}

// Small and long packets as fast as one sender can.
func BenchmarkUDP(b *testing.B) {
	for _, bytes := range []int{18, 1458} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			k, pid, from, to := between(b, true, Path{Delay: time.Millisecond})
			var packets uint64
			used, start := cpuOf(b, pid), time.Now()
			for b.Loop() {
				stop := flood(b, from, to)
				time.Sleep(2 * time.Second)
				stop()
			}
			took := time.Since(start).Seconds()
			counts, err := k.Counters(b.Context())
			must(b, err)
			packets = counts["lan"]["p2"].OutPackets
			b.ReportMetric(float64(packets)/took, "packets/s")
			b.ReportMetric(100*(cpuOf(b, pid)-used).Seconds()/took, "%cpu")
		})
	}
}

// UDP at 100 Mbit/s in long packets: what that takes of a processor.
func BenchmarkCPUAt100Mbit(b *testing.B) {
	_, pid, from, to := between(b, true, Path{Delay: 5 * time.Millisecond})
	out := from.dialUDP(to, 9)
	used, took := cpuOf(b, pid), time.Duration(0)
	for b.Loop() {
		start := time.Now()
		burst(out, 2*8333, 1458, 8333)
		took += time.Since(start)
	}
	b.ReportMetric(100*(cpuOf(b, pid)-used).Seconds()/took.Seconds(), "%cpu")
}

// Memory of the process without traffic, with few and many ports, and with its
// queues full.
func BenchmarkMemory(b *testing.B) {
	for _, ports := range []int{2, 100} {
		b.Run(fmt.Sprint("Idle", ports), func(b *testing.B) {
			k, pids, _ := newKeeper(b)
			var hosts []*host
			for n := range ports {
				hosts = append(hosts, newHost(b, n+1, true))
			}
			lanOf(b, k, []Path{{Delay: time.Millisecond}}, hosts...)
			for b.Loop() {
				probe(b, hosts[0], hosts[1], 1, 0)
			}
			time.Sleep(idle + 200*time.Millisecond)
			b.ReportMetric(float64(residentOf(b, <-pids))/(1<<20), "MB")
		})
	}
	b.Run("Full", func(b *testing.B) {
		k, pid, from, to := between(b, true, Path{})
		lanOf(b, k, []Path{{To: []string{"p2"}, Delay: 3 * time.Second}}, from, to)
		most := 0
		for b.Loop() {
			stop := flood(b, from, to)
			for range 30 {
				time.Sleep(100 * time.Millisecond)
				most = max(most, residentOf(b, pid))
			}
			stop()
			time.Sleep(3*time.Second + 2*idle)
		}
		b.ReportMetric(float64(most)/(1<<20), "MB-most")
		b.ReportMetric(float64(residentOf(b, pid))/(1<<20), "MB-after")
	})
}

// The switch alone, without devices.
func BenchmarkSwitch(b *testing.B) {
	for _, bytes := range []int{60, 1514} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			l := newBench(plan{Ports: plannedPorts(2), Paths: []Path{{Delay: time.Microsecond, Loss: 0.01, Rate: 1e10}}}, func() float64 { return 0.5 })
			l.lan.send = func(*port, []byte) bool { return true }
			f, from := frameOf(address(1), address(2), 1, bytes), l.lan.ports[0]
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				l.lan.came(l.now, from, f)
				l.until(l.now + 2000)
			}
		})
	}
}

// Put of a LAN and of one port more.
func BenchmarkPut(b *testing.B) {
	k, _, _ := newKeeper(b)
	var hosts []*host
	for n := range 100 {
		hosts = append(hosts, newHost(b, n+1, true))
	}
	lanOf(b, k, nil, hosts...)
	b.Run("Again100", func(b *testing.B) {
		for b.Loop() {
			lanOf(b, k, []Path{{Delay: time.Millisecond}}, hosts...)
		}
	})
	runtime.KeepAlive(hosts)
}
