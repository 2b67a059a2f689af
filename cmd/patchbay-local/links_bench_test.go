package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// BenchmarkLinks measures links as TestLinksHaveRequestedProperties does, for longer and
// strictly: within 5 %, 1 ms and 5 %, 1.5 points. It prints what was asked and
// what was measured as one table: make bench B=Links.
func BenchmarkLinks(b *testing.B) {
	require.Root(b)
	require.TUN(b)
	var rows []measured
	for _, emulator := range []string{"auto", "vswitch"} {
		b.Run(emulator, func(b *testing.B) {
			s := newTestSite(b, "links-b"+emulator[:1], "emulator: "+emulator).join(b, "shaped", 0, testLinks())
			for b.Loop() {
				got := s.measure(b, emulator, exactly)
				for _, r := range got {
					if !r.good {
						b.Errorf("%s, %s, %s, %s: asked for %s, measured %s", emulator, r.link, r.pair, r.what, r.asked, r.got)
					}
				}
				rows = append(rows, got...)
			}
		})
	}
	printMeasured(os.Stdout, rows)
}

// BenchmarkLAN makes nodes that are all on one LAN, beside nodes that are on
// none, and prints both as one table: make bench B=LAN. All that is measured is
// as the testbed tells it to the manager.
func BenchmarkLAN(b *testing.B) {
	var figures benchTable
	t := newTestSite(b, "bench-lan")
	t.node(b, nodeID(0), nil) // the image is there from here on, and the disk
	t.remove(b, nodeID(0))
	for _, n := range []int{1, 20, 100, 300} {
		b.Run("Nodes"+strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				count := strconv.Itoa(n)
				var without float64
				for _, kind := range []string{"on no link", "on one LAN", "on one LAN, shaped", "on one LAN, vswitch"} {
					began, used := time.Now(), t.processorTime()
					t.makeLAN(b, n, kind)
					took := milliseconds(began)
					figures.add("ready, "+kind, count, "ms", took)
					figures.add("ready, "+kind+": processor time", count, "ms", float64((t.processorTime() - used).Milliseconds()))
					if kind == "on no link" {
						without = took
					} else {
						figures.add("ready, "+kind+": more for each node", count, "ms", (took-without)/float64(n))
						t.measureLAN(b, n, kind, &figures)
					}
					began = time.Now()
					t.removeNodes(b, n)
					figures.add("deleted, "+kind, count, "ms", milliseconds(began))
				}
			}
		})
	}
	figures.print(os.Stdout)
}

// makeLAN makes n nodes at once and waits until all are ready.
func (b *testSite) makeLAN(tb *testing.B, n int, kind string) {
	tb.Helper()
	slice := "urn:publicid:IDN+example.org+slice+" + b.instance
	updates := make([]provider.Update, n)
	for i := range updates {
		should := node("localhost", provider.Resource{
			"power": "on", "users": []string{}, "slice_urn": slice, "client_id": "n" + strconv.Itoa(i),
		})
		if kind != "on no link" {
			properties := ""
			switch {
			case strings.HasSuffix(kind, "shaped"):
				properties = `,"properties":[{"capacity":100000}]`
			case strings.HasSuffix(kind, "vswitch"): // the vswitch also carries a second link to the next node
				properties = fmt.Sprintf(`,"properties":[{"latency":1},{"to":["n%d:0"],"latency":2}]`, (i+1)%n)
			}
			should["interfaces"] = []string{fmt.Sprintf(`{"client_id":"n%d:0","link":"lan","slice":%q,"addresses":["10.7.%d.%d/16"]%s}`,
				i, slice, i/200, i%200+1, properties)}
		}
		updates[i] = provider.Update{Name: nodeID(i), Is: provider.Resource{"ensure": provider.Absent}, Should: should}
	}
	changes, err := b.provider.Set(tb.Context(), updates, false)
	for _, c := range changes {
		if c.Err != nil {
			err = c.Err
		}
	}
	if err != nil {
		tb.Fatalf("set: %v", err)
	}
	b.waitStates(tb, func(state map[string]int) bool { return state[provider.StateReady] == n })
}

// measureLAN tells what asking for all interfaces takes, and that the first and
// the last node reach each other.
func (b *testSite) measureLAN(tb *testing.B, n int, kind string, figures *benchTable) {
	tb.StopTimer()
	defer tb.StartTimer()
	began := time.Now()
	all, err := b.provider.Get(tb.Context(), nil)
	if err != nil || len(all) != n {
		tb.Fatalf("get: %d nodes, %v", len(all), err)
	}
	figures.add("get, "+kind, strconv.Itoa(n), "ms", milliseconds(began))
	if n == 1 {
		return
	}
	server, err := b.startIn(tb.Context(), nodeID(n-1), []string{linktestInside, "serve"})
	if err != nil {
		tb.Fatal(err)
	}
	defer server.process.Close()
	to := fmt.Sprintf("10.7.%d.%d", (n-1)/200, (n-1)%200+1)
	r, err := b.linktestAt(tb.Context(), nodeID(0), to, "--only", "delay", "--time", "200ms")
	if err != nil {
		tb.Fatal(err)
	}
	figures.add("first to last and back, "+kind, strconv.Itoa(n), "ms", r.Delay.Trip.Median)
}
