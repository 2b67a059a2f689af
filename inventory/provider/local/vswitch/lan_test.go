package vswitch

import (
	"testing"
	"time"
)

func (b *bench) port(id string) *port {
	for _, p := range b.lan.ports {
		if p.id == id {
			return p
		}
	}
	return nil
}

// send delivers a frame to a port.
func (b *bench) send(id string, f []byte) { b.lan.receive(b.now, b.port(id), f) }

func (b *bench) arrived(id string) (ids []int) {
	for _, d := range b.out {
		if d.port == id {
			ids = append(ids, d.id)
		}
	}
	return ids
}

func never() float64 { return 1 }

func TestBadFrames(t *testing.T) {
	for name, f := range map[string][]byte{
		"Empty":               {},
		"Runt":                make([]byte, ethernetSize-1),
		"FromNobody":          make([]byte, 60),
		"FromAGroup":          frameOf(address(1), mac{1}, 1, 60),
		"LongerThanTheMTU":    frameOf(address(1), address(2), 1, 1500+14+9),
		"MuchLongerThanItAll": frameOf(address(1), address(2), 1, 65535),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(plan{Ports: plannedPorts(2)}, never)
			b.send("p0", f)
			if c := b.port("p0").counts; len(b.out) > 0 || c != (Counters{Bad: 1}) {
				t.Errorf("passed on %v, counted %+v", b.out, c)
			}
		})
	}
}

func TestUnknownAddressesAreFlooded(t *testing.T) {
	b := newBench(plan{Ports: plannedPorts(4)}, never)
	b.send("p0", frameOf(address(9), address(1), 1, 60))
	b.send("p1", frameOf(address(1), address(2), 2, 60)) // p0 has it
	b.send("p0", frameOf(address(1), address(3), 3, 60)) // behind the same port
	b.now += maxSilence + 1
	b.send("p2", frameOf(address(1), address(4), 4, 60)) // long ago
	for id, want := range map[string]int{"p0": 2, "p1": 2, "p2": 1, "p3": 2} {
		if got := b.arrived(id); len(got) != want {
			t.Errorf("at %s: %v, want %d", id, got, want)
		}
	}
}

// A port that uses ever new addresses evicts only its own, and uses no more memory.
func TestLearnedAddressesAreLimited(t *testing.T) {
	b := newBench(plan{Ports: plannedPorts(3)}, never)
	b.send("p1", frameOf(address(9), address(60001), 1, 60))
	for i := range 50000 {
		b.now++
		b.send("p0", frameOf(address(60001), address(i), i, 60))
	}
	if n := len(b.lan.table.known); n > 2*maxLearned {
		t.Errorf("%d addresses are known", n)
	}
	if got := b.arrived("p2"); len(got) != 1 {
		t.Errorf("%d frames for p1 came to p2", len(got)-1)
	}
	// Two ports that use the same addresses do not fill the table, either.
	for i := range 50000 {
		b.send([]string{"p0", "p1"}[i%2], frameOf(address(9), address(i/2%300), i, 60))
	}
	if n := len(b.lan.table.known); n > 3*maxLearned {
		t.Errorf("%d addresses are known", n)
	}
	for _, of := range b.lan.table.ports {
		if len(of.ring) > maxLearned {
			t.Errorf("a ring of %d", len(of.ring))
		}
	}
}

func TestRateIsExact(t *testing.T) {
	for _, rate := range []int64{minRate, 999, 64_000, 1e6, 7_777_777, 1e9, 99_999_999_999} {
		b := newBench(plan{Ports: plannedPorts(2), Paths: []Path{{Rate: rate}}}, never)
		const frames, bytes = 10000, 1514
		for i := range frames {
			for b.lan.paths[0].busy > b.now {
				b.until(b.lan.paths[0].busy)
			}
			b.send("p0", frameOf(address(1), address(2), i, bytes))
		}
		b.until(1 << 62)
		// Each frame may be up to one ns late here.
		took := b.out[len(b.out)-1].at
		want := float64(frames) * bytes * 8 * 1e9 / float64(rate)
		if len(b.out) != frames || float64(took) < want-1 || float64(took) > want+frames {
			t.Errorf("%d bit/s: %d frames took %d ns, want %.0f", rate, len(b.out), took, want)
		}
	}
}

// The queue before a rate holds what can leave soon; a delay holds any number.
func TestQueueBeforeRateIsShort(t *testing.T) {
	for _, c := range []struct {
		rate        int64
		least, most int // frames
	}{{1e5, 9, 13}, {1e6, 9, 13}, {1e7, 40, 45}, {1e9, 4100, 4150}} {
		b := newBench(plan{Ports: plannedPorts(2), Paths: []Path{{Rate: c.rate, Delay: time.Second}}}, never)
		for i := range 10000 {
			b.send("p0", frameOf(address(1), address(2), i, 1514))
		}
		full := int(b.port("p1").counts.Full)
		b.until(int64(time.Hour))
		if n := len(b.out); n < c.least || n > c.most || n+full != 10000 {
			t.Errorf("%d bit/s: %d waited and %d were dropped, want %d to %d", c.rate, n, full, c.least, c.most)
		}
	}
}

func TestMemoryIsLimited(t *testing.T) {
	p := plan{Ports: plannedPorts(6), Paths: make([]Path, 6)}
	for i := range p.Paths {
		p.Paths[i] = Path{From: []string{p.Ports[i].ID}, Delay: maxDelay}
	}
	b := newBench(p, never)
	f := frameOf(mac{255}, address(2), 1, 1514)
	for _, n := range p.Ports {
		for full := b.fullDrops(); b.fullDrops() == full; {
			b.send(n.ID, f)
		}
	}
	taken, most := maxBytes-int(b.pool.room.left.Load()), 0
	for _, path := range b.lan.paths {
		most = max(most, path.queue.bytes)
	}
	if taken > maxBytes || taken < maxBytes*99/100 || most > maxPathBytes || most < maxPathBytes*99/100 {
		t.Errorf("frames take %d bytes, at most %d on a path", taken, most)
	}
	b.until(2 * int64(maxDelay)) // all memory is released
	b.pool.trim()
	if left := b.pool.room.left.Load(); left != maxBytes {
		t.Errorf("%d bytes did not come back", maxBytes-left)
	}
}

// fullDrops returns how many frames were dropped because a queue was full.
func (b *bench) fullDrops() (n uint64) {
	for _, p := range b.lan.ports {
		n += p.counts.Full
	}
	return n
}

// A path with few frames uses little memory.
func TestShortQueuesUseLittleMemory(t *testing.T) {
	b := newBench(plan{Ports: plannedPorts(2), Paths: []Path{{Delay: 1000}}}, never)
	b.send("p0", frameOf(address(1), address(2), 1, 1514))
	if n := b.lan.paths[0].queue.bytes; n != classSize(0) {
		t.Errorf("%d bytes for one frame", n)
	}
	b.until(2000)
	if n := b.lan.paths[0].queue.bytes; n != 0 {
		t.Errorf("%d bytes for none", n)
	}
}

func TestChangedLink(t *testing.T) {
	slow := Path{To: []string{"p1"}, Delay: 1000}
	before := plan{Ports: plannedPorts(2), Paths: []Path{slow}}
	for _, c := range []struct {
		rule    string
		after   plan
		arrives bool // what was on its way
		known   bool // whether p1's address is still known
	}{
		{"Same", before, true, true},
		{"PortMore", plan{Ports: plannedPorts(3), Paths: []Path{{Delay: 5}, slow}}, true, true},
		{"InAnotherOrder", plan{Ports: []plannedPort{{"p2", 1500}, {"p1", 1500}, {"p0", 1500}}, Paths: []Path{slow}}, true, true},
		{"AnotherMTU", plan{Ports: []plannedPort{{"p0", 1400}, {"p1", 1400}}, Paths: []Path{slow}}, true, true},
		{"OtherDelay", plan{Ports: plannedPorts(3), Paths: []Path{{To: []string{"p1"}, Delay: 1001}}}, false, true},
		{"PortLess", plan{Ports: []plannedPort{{"p1", 1500}, {"p2", 1500}}, Paths: []Path{slow}}, false, false},
		{"NoPorts", plan{}, false, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := newBench(before, never)
			b.send("p1", frameOf(address(9), address(1), 1, 60))
			b.send("p0", frameOf(address(1), address(2), 2, 60))
			was := *b.port("p1")
			b.now = 500
			b.lan.configure(c.after, &b.pool)
			b.until(5000)
			if got := b.arrived("p1"); (len(got) == 1) != c.arrives {
				t.Errorf("at p1: %v", got)
			}
			if p := b.port("p1"); p != nil && p.counts.InPackets != was.counts.InPackets {
				t.Error("p1 has lost its counters")
			}
			if _, known := b.lan.table.find(address(1), b.now); known != c.known {
				t.Errorf("known: %v", known)
			}
			for _, p := range c.after.Ports {
				if got := b.port(p.ID); got == nil || got.mtu != p.MTU {
					t.Errorf("port %s: %+v", p.ID, got)
				}
			}
			if left := b.pool.room.left.Load() + int64(b.pool.kept); left != maxBytes {
				t.Errorf("%d bytes did not come back", maxBytes-left)
			}
		})
	}
}
