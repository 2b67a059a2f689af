package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/local/fabric"
	"patchbay/inventory/provider"
)

func (w *world) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		t.Error(w.wrong)
	}
}

func TestNodesAreOnTheirLinks(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.run(-1)
	defer func() { stop() }()
	a, b := nodeName(1), nodeName(2)
	items := []string{on("a:0", "lan", "10.0.0.1/24", `,"properties":[{"capacity":1000}]`), `{"client_id":"a:1"}`, `{"role":"control","public_address":"192.0.2.1"}`}
	setAll(t, tb, map[string]provider.Resource{a: linked("a", items...), b: linked("b", on("b:0", "lan", "10.0.0.2/24", ""))})
	both := func(when string) {
		t.Helper()
		await(t, tb, a, ready)
		await(t, tb, b, ready)
		if got := w.ends(sliceURN, "lan"); !slices.Equal(got, []string{a + "/eth1", b + "/eth1"}) {
			t.Errorf("%s: on the link are %v", when, got)
		}
	}
	both("made")
	r := await(t, tb, a, func(r provider.Resource) bool { return strings.Contains(fmt.Sprint(r), "rx_packets") })
	var got []map[string]any
	for _, item := range r.List("interfaces") {
		var m map[string]any
		if err := json.Unmarshal([]byte(item), &m); err != nil {
			t.Fatalf("%s: %v", item, err)
		}
		got = append(got, m)
	}
	if i := got[0]; i["mac"] != macOf(a, "a:0").String() || i["emulator"] != "vswitch" || i["tx_packets"] != 3.0 || i["dropped"] != 5.0 || fmt.Sprint(i["properties"]) != "[map[capacity:1000]]" {
		t.Errorf("the first is reported as %v", i)
	}
	if i := got[1]; i["emulator"] != "bridge" || i["mac"] == got[0]["mac"] {
		t.Errorf("the second is reported as %v", i)
	}
	if r.List("interfaces")[2] != `{"public_address":"192.0.2.1","role":"control"}` {
		t.Errorf("the public address is reported as %v", r.List("interfaces")[2])
	}

	if c, err := ask(tb, a, provider.Resource{"interfaces": items}); c != nil || err != nil {
		t.Errorf("the same once more: %v, %v", c, err)
	}
	for _, other := range [][]string{{}, items[:1], {items[1], items[0], items[2]}, {"x"}} {
		if c, err := ask(tb, a, provider.Resource{"interfaces": other}); err == nil || !strings.Contains(err.Error(), "the interfaces of a node cannot be changed; remove the node first") {
			t.Errorf("other interfaces: %v, %v", c, err)
		}
	}
	set(t, tb, a, provider.Resource{"restart_serial": "1"})
	both("restarted")
	bring(t, tb, a, provider.Resource{"power": "off"})
	if got := w.ends(sliceURN, "lan"); !slices.Equal(got, []string{b + "/eth1"}) {
		t.Errorf("with one node off: %v", got)
	}
	set(t, tb, a, provider.Resource{"power": "on"})
	both("off and on")
	w.dies(b)
	await(t, tb, b, func(r provider.Resource) bool { return ready(r) && w.count("start") == 5 })
	both("ended by itself")
	stop()
	w.mu.Lock()
	w.fabric[sliceID(sliceURN)].links = map[string]fabric.Link{} // as of a switch process that is gone
	w.mu.Unlock()
	tb, stop = w.run(-1)
	both("adopted")
	if w.starts[a] != 3 {
		t.Errorf("a was started %d times", w.starts[a])
	}

	remove(t, tb, a)
	await(t, tb, b, func(provider.Resource) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		links := w.fabric[sliceID(sliceURN)].links
		return len(links) == 1 && len(links[linkID("lan")].Ends) == 1
	})
	w.breaks("drop", errors.New("busy"))
	set(t, tb, b, absent)
	await(t, tb, b, provider.Gone) // its network is nobody's business but ours
	// What comes again at once has its links.
	bring(t, tb, b, linked("b", on("b:0", "lan", "10.0.0.2/24", "")))
	w.mu.Lock()
	if got := len(w.fabric[sliceID(sliceURN)].links[linkID("lan")].Ends); got != 1 {
		t.Errorf("the LAN of the node that came again has %d ends", got)
	}
	delete(w.fails, "drop")
	w.mu.Unlock()
	remove(t, tb, b)
	w.nothingLeft(t, tb)
	w.check(t)
}

func TestLinksArePutOncePerQuietMoment(t *testing.T) {
	w := newWorld(t)
	tb := w.up(-1)
	tb.linkDelay, tb.peerUpdateDelay = 500*time.Millisecond, 100*time.Millisecond
	stop := w.serve(tb)
	defer stop()
	const n = 60
	begun := time.Now()
	all, names := map[string]provider.Resource{}, []string{}
	for i := range n {
		names = append(names, nodeName(i))
		set(t, tb, nodeName(i), linked(fmt.Sprintf("n%d", i), on("if", "lan", fmt.Sprintf("10.0.0.%d/24", i+1), "")))
	}
	for _, name := range names {
		await(t, tb, name, ready)
	}
	if got := len(w.ends(sliceURN, "lan")); got != n {
		t.Errorf("%d ends are on the link", got)
	}
	// On a slow host there are quiet moments between nodes.
	most := func() int { return n/10 + int(time.Since(begun)/tb.peerUpdateDelay) }
	made := w.count("put link")
	if made > most() {
		t.Errorf("the link of %d nodes was put %d times, may be %d", n, made, most())
	}
	begun = time.Now()
	for _, name := range names[:n/2] {
		all[name] = absent
	}
	setAll(t, tb, all)
	for _, name := range names[:n/2] {
		await(t, tb, name, provider.Gone)
	}
	await(t, tb, names[n-1], func(provider.Resource) bool { return len(w.ends(sliceURN, "lan")) == n/2 })
	if gone := w.count("put link") - made; gone > most() {
		t.Errorf("when %d nodes left, it was put %d times, may be %d", n/2, gone, most())
	}
	w.check(t)
}

// A slice whose fabric hangs or fails keeps no other slice from anything.
func TestFabricThatHangsHoldsUpNoOtherSlice(t *testing.T) {
	for _, operation := range []string{"put link", "plug", "drop", "counters"} {
		t.Run(operation, func(t *testing.T) {
			w := newWorld(t)
			tb, stop := w.run(-1)
			defer stop()
			hang := make(chan struct{})
			all := map[string]provider.Resource{}
			w.mu.Lock()
			for i := range 24 { // in twelve slices, more than there are turns of any kind
				slice := sliceURN + fmt.Sprint(i/2)
				w.slow[operation+" "+sliceID(slice)] = hang
				all[nodeName(i)] = present(fmt.Sprintf("n%d", i), slice, "alice")
				all[nodeName(i)]["interfaces"] = []string{fmt.Sprintf(`{"client_id":"%d","link":"lan"}`, i)}
			}
			w.mu.Unlock()
			other := nodeName(99)
			all[other] = present("other", sliceURN, "alice")
			all[other]["interfaces"] = []string{`{"client_id":"0","link":"lan"}`}
			setAll(t, tb, all)
			await(t, tb, other, ready)
			if operation == "drop" || operation == "counters" {
				for i := range 24 {
					await(t, tb, nodeName(i), ready)
				}
			} else if r := look(tb, nodeName(1)); r.Text("state") != "changing" {
				t.Errorf("a node of the slice is %v", r)
			}
			for i := range 24 {
				set(t, tb, nodeName(i), absent)
			}
			set(t, tb, other, provider.Resource{"restart_serial": "1"})
			await(t, tb, other, func(r provider.Resource) bool { return ready(r) && r.Text("restart_serial") == "1" })
			w.mu.Lock()
			clear(w.slow)
			w.mu.Unlock()
			close(hang)
			for i := range 24 {
				await(t, tb, nodeName(i), provider.Gone)
			}
			remove(t, tb, other)
			w.nothingLeft(t, tb)
			w.check(t)
		})
	}
}

// What an earlier program left of networks and links, and no record tells, goes.
func TestLinksThatNoRecordTellsAreRemoved(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.run(-1)
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: linked("a", on("0", "lan", "", ""))})
	await(t, tb, a, ready)
	stop()
	w.mu.Lock()
	w.fabric["deadbeef"] = &plugs{map[string]fabric.Link{"x": {}}, map[string]int{}}
	w.fabric[sliceID(sliceURN)].links["old"] = fabric.Link{}
	w.fails["drop"] = errors.New("busy") // at first
	w.mu.Unlock()
	tb, stop = w.run(-1)
	defer stop()
	time.AfterFunc(20*time.Millisecond, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fails, "drop")
	})
	await(t, tb, a, func(r provider.Resource) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ready(r) && len(w.fabric) == 1 && len(w.fabric[sliceID(sliceURN)].links) == 1
	})
	w.check(t)
}

func TestCountersDoNotHoldUpLooks(t *testing.T) {
	w, tb := runningWorld(t)
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: linked("a", on("0", "lan", "", ""))})
	await(t, tb, a, ready)
	known := func(r provider.Resource) bool { return strings.Contains(fmt.Sprint(r), `"rx_packets":`) }
	await(t, tb, a, known)
	before := w.count("counters")
	for range 100 {
		look(tb, a)
	}
	if reads := w.count("counters") - before; reads > 3 {
		t.Errorf("100 looks read the counters %d times", reads)
	}
	hang := make(chan struct{})
	defer close(hang)
	w.mu.Lock()
	w.slow["counters "+sliceID(sliceURN)] = hang
	w.mu.Unlock()
	time.Sleep(countersAge)
	asked := time.Now()
	if r := look(tb, a); !known(r) {
		t.Errorf("while they cannot be read, the last are not told: %v", r)
	}
	if took := time.Since(asked); took > countersTime/2 {
		t.Errorf("a look waited %v for counters", took)
	}
}

func TestDroppedPacketsStayCountedWhenALinkIsRemade(t *testing.T) {
	var c counterCache
	for _, tt := range []struct {
		rule          string
		rx, raw, want uint64
	}{
		{"at first", 10, 5, 5}, {"more", 20, 7, 7}, {"remade", 21, 0, 7}, {"after that", 30, 2, 9}, {"remade again", 30, 1, 10}, {"the same", 30, 1, 10},
		{"another interface", 3, 1, 1}, {"goes on", 4, 2, 2},
	} {
		c.update(map[string]fabric.Counters{"end": {RxPackets: tt.rx, Dropped: tt.raw}})
		if got := c.byEnd["end"]; got.Dropped != tt.want || got.RxPackets != tt.rx {
			t.Errorf("%s: %+v, want %d", tt.rule, got, tt.want)
		}
	}
}

// A node says which link lost much of what it sent because the host is too slow, and
// the log does; what each burst can lose is not told.
func TestPacketsLostForWantOfTimeAreTold(t *testing.T) {
	w := newWorld(t)
	var log wait.Buffer
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	tb, stop := w.run(-1)
	defer stop()
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: linked("a", on("0", "lan", "", ""))})
	await(t, tb, a, ready)
	loses := func(n uint64) {
		w.mu.Lock()
		w.overruns = n
		w.mu.Unlock()
		await(t, tb, a, func(r provider.Resource) bool {
			return strings.Contains(fmt.Sprint(r), fmt.Sprintf(`"overruns":%d`, n))
		})
	}
	loses(0)
	loses(99)
	if r := look(tb, a); r.Text("message") != "" {
		t.Errorf("after a few: %q", r.Text("message"))
	}
	loses(100_099)
	await(t, tb, a, says("100000 packets that it sent to link lan were lost"))
	if !strings.Contains(log.String(), "is too slow for the packets of a link") {
		t.Errorf("the log says nothing: %s", &log)
	}
}

func TestLinksAreListedWithTheEndsThatAreThere(t *testing.T) {
	_, tb := runningWorld(t)
	a, b := nodeName(1), nodeName(2)
	setAll(t, tb, map[string]provider.Resource{
		a: linked("a", on("a:0", "lan", "", `,"properties":[{"to":["b:0","c:0"],"capacity":1000},{"to":["c:0"],"latency":5},{"packet_loss":1}]`)),
		b: linked("b", on("b:0", "lan", "", "")),
	})
	await(t, tb, a, ready)
	await(t, tb, b, ready)
	is := tb.listLinks()
	if len(is) != 2 || is[0].InterfaceID != "a:0" || is[0].Interface != "eth1" || fmt.Sprint(is[0].Properties) != "[{[b:0] 1000 0 0} {[] 0 0 1}]" {
		t.Errorf("listed are %+v", is)
	}
	for room, want := range map[int]int{0: 2, 70: 1, 1000: 0} {
		if is := tb.node(a).listLinks(&room); is[0].OmittedProperties != want || len(is[0].Properties) != 2-want {
			t.Errorf("with little room: %+v, want %d untold", is[0], want)
		}
	}
}
