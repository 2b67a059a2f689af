package vswitch

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// delivery is a frame that left at a port.
type delivery struct {
	at        int64
	port      string
	id, bytes int
}

// model is a simple model of a link.
type model struct {
	plan  plan
	draws *rand.Rand
	known map[mac]int
	paths []modelPath
	out   []delivery
	lost  map[string]uint64
	full  map[string]uint64
}

type modelPath struct {
	busy  int64
	waits []modelFrame
}

type modelFrame struct {
	due       int64
	to        []int
	id, bytes int
}

// path returns the most specific path of a pair, or -1 if there is none.
func (m *model) path(from, to int) int {
	best, specific := -1, -1
	for i, p := range m.plan.Paths {
		has := func(ids []string, n int) bool { return len(ids) == 0 || slices.Contains(ids, m.plan.Ports[n].ID) }
		if !has(p.From, from) || !has(p.To, to) {
			continue
		}
		s := 0
		if len(p.From) > 0 {
			s++
		}
		if len(p.To) > 0 {
			s++
		}
		if s > specific {
			best, specific = i, s
		}
	}
	return best
}

func (m *model) send(now int64, from int, source, to mac, id, bytes int) {
	m.known[source] = from
	group := make([][]int, len(m.plan.Paths)+1) // by path; the first is for ports without a path
	var order []int
	add := func(port int) {
		p := m.path(from, port) + 1
		if group[p] == nil {
			order = append(order, p)
		}
		group[p] = append(group[p], port)
	}
	if at, ok := m.known[to]; ok && !to.group() {
		if at != from {
			add(at)
		}
	} else {
		for port := range m.plan.Ports {
			if port != from {
				add(port)
			}
		}
	}
	for _, p := range order {
		if p == 0 {
			m.arrive(now, group[0], id, bytes)
			continue
		}
		m.enter(now, p-1, group[p], id, bytes)
	}
}

func (m *model) arrive(now int64, ports []int, id, bytes int) {
	for _, p := range ports {
		m.out = append(m.out, delivery{now, m.plan.Ports[p].ID, id, bytes})
	}
}

func (m *model) enter(now int64, i int, ports []int, id, bytes int) {
	p, path := m.plan.Paths[i], &m.paths[i]
	if len(ports) == 1 {
		if ports = m.lose(i, ports); len(ports) == 0 {
			return
		}
	}
	sent := now
	if p.Rate > 0 {
		path.busy = max(path.busy, now)
		if path.busy-now > max(int64(50*time.Millisecond), 16<<10*8*1e9/p.Rate) {
			for _, n := range ports {
				m.full[m.plan.Ports[n].ID]++
			}
			return
		}
		path.busy += int64(bytes) * 8 * 1e9 / p.Rate
		sent = path.busy
	}
	if p.Rate == 0 && p.Delay == 0 {
		if len(ports) > 1 {
			ports = m.lose(i, ports)
		}
		m.arrive(now, ports, id, bytes)
		return
	}
	path.waits = append(path.waits, modelFrame{sent + int64(p.Delay), ports, id, bytes})
}

func (m *model) lose(i int, ports []int) []int {
	var left []int
	for _, n := range ports {
		if loss := m.plan.Paths[i].Loss; loss > 0 && m.draws.Float64() < loss {
			m.lost[m.plan.Ports[n].ID]++
		} else {
			left = append(left, n)
		}
	}
	return left
}

// until delivers all due frames.
func (m *model) until(now int64) {
	for {
		next := -1
		for i, p := range m.paths {
			if len(p.waits) > 0 && p.waits[0].due <= now && (next < 0 || p.waits[0].due < m.paths[next].waits[0].due) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		f := m.paths[next].waits[0]
		m.paths[next].waits = m.paths[next].waits[1:]
		if len(f.to) > 1 {
			f.to = m.lose(next, f.to)
		}
		m.arrive(f.due, f.to, f.id, f.bytes)
	}
}

func address(n int) mac { return mac{2, 0, 0, 0, byte(n >> 8), byte(n)} }

// frameOf returns a frame that carries a number.
func frameOf(to, from mac, id, bytes int) []byte {
	b := make([]byte, max(bytes, ethernetSize+4))
	copy(b, to[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint32(b[ethernetSize:], uint32(id))
	return b
}

func idOf(b []byte) int { return int(binary.BigEndian.Uint32(b[ethernetSize:])) }

// bench is a link without devices, with the test's own clock.
type bench struct {
	lan      *lan
	schedule schedule
	pool     chunkPool
	now      int64
	out      []delivery
}

func newBench(p plan, draw func() float64) *bench {
	b := &bench{pool: chunkPool{room: newMemoryBudget(maxBytes)}}
	b.lan = &lan{table: newTable(), schedule: &b.schedule, draw: draw, send: func(to *port, f []byte) bool {
		b.out = append(b.out, delivery{b.now, to.id, idOf(f[b.lan.header:]), len(f) - b.lan.header})
		return true
	}}
	b.lan.configure(p, &b.pool)
	return b
}

func (b *bench) until(now int64) {
	for {
		due, ok := b.schedule.due()
		if !ok || due > now {
			b.now = now
			return
		}
		b.now = max(b.now, due)
		b.schedule.paths[0].lan.sendFirst(b.schedule.paths[0])
	}
}

func plannedPorts(n int) []plannedPort {
	var ports []plannedPort
	for i := range n {
		ports = append(ports, plannedPort{fmt.Sprint("p", i), 1500})
	}
	return ports
}

// Frames arrive exactly when, where and in which order the model says, with the same
// random losses. No two paths have frames due at the same time.
func TestLinkMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ports := rapid.IntRange(1, 5).Draw(t, "ports")
		p := plan{Ports: plannedPorts(ports)}
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom(p.Ports), 0, 2, func(p plannedPort) string { return p.ID })
		names := func(label string) []string {
			var names []string
			for _, n := range ids.Draw(t, label) {
				names = append(names, n.ID)
			}
			return names
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "paths") {
			path := Path{From: names("from"), To: names("to"),
				Loss: rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "loss"),
				Rate: rapid.SampledFrom([]int64{0, 0, 4e6, 8e6}).Draw(t, "rate")}
			if ms := rapid.IntRange(0, 3).Draw(t, "ms"); ms > 0 || path.Rate > 0 {
				path.Delay = time.Duration(ms)*time.Millisecond + time.Duration(i+1)
			}
			p.Paths = append(p.Paths, path)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		m := &model{plan: p, draws: rand.New(rand.NewPCG(seed, 1)), known: make(map[mac]int),
			paths: make([]modelPath, len(p.Paths)), lost: make(map[string]uint64), full: make(map[string]uint64)}
		b := newBench(p, rand.New(rand.NewPCG(seed, 1)).Float64)
		number := make(map[string]int)
		for i, n := range p.Ports {
			number[n.ID] = i
		}
		for id := range rapid.IntRange(1, 80).Draw(t, "frames") {
			now := b.now + 1000*rapid.Int64Range(0, 3000).Draw(t, "µs")
			now -= now % 1000
			b.until(now)
			m.until(now)
			from := rapid.IntRange(0, ports-1).Draw(t, "at")
			source := address(rapid.IntRange(0, 6).Draw(t, "source"))
			to := address(rapid.IntRange(0, 6).Draw(t, "to"))
			if rapid.Bool().Draw(t, "broadcast") {
				to = mac{255, 255, 255, 255, 255, 255}
			}
			f := frameOf(to, source, id, rapid.SampledFrom([]int{18, 60, 1514}).Draw(t, "bytes"))
			for _, n := range b.lan.ports {
				if n.id == p.Ports[from].ID {
					b.lan.receive(now, n, f)
				}
			}
			m.send(now, from, source, to, id, len(f))
		}
		b.until(b.now + int64(time.Minute))
		m.until(b.now)
		compareDeliveries(t, b.out, m.out)
		for _, n := range b.lan.ports {
			if n.counts.Lost != m.lost[n.id] || n.counts.Full != m.full[n.id] {
				t.Fatalf("port %s: lost %d, full %d, want %d, %d", n.id, n.counts.Lost, n.counts.Full, m.lost[n.id], m.full[n.id])
			}
		}
		if left := b.pool.room.left.Load() + int64(b.pool.kept); left != maxBytes {
			t.Fatalf("%d bytes are missing from the room", maxBytes-left)
		}
		b.pool.trim()
	})
}

// compareDeliveries compares in order; simultaneous frames at several ports may be in any
// order.
func compareDeliveries(t *rapid.T, got, want []delivery) {
	for _, list := range [][]delivery{got, want} {
		slices.SortStableFunc(list, func(a, b delivery) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.port, b.port))
		})
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("delivery %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d deliveries, want %d", len(got), len(want))
	}
}
