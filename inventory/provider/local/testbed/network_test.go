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
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/fabric"
)

func (h *fakeHost) checkNetworks(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		t.Error(h.wrong)
	}
}

func TestNodesAreOnTheirLinks(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	defer func() { stop() }()
	a, b := nodeName(1), nodeName(2)
	items := []string{interfaceItem("a:0", "lan", "10.0.0.1/24", `,"properties":[{"capacity":1000}]`), `{"client_id":"a:1"}`, `{"role":"control","public_address":"192.0.2.1"}`}
	setAll(t, tb, map[string]provider.Resource{a: newLinkedNode("a", items...), b: newLinkedNode("b", interfaceItem("b:0", "lan", "10.0.0.2/24", ""))})
	both := func(when string) {
		t.Helper()
		awaitNode(t, tb, a, isReady)
		awaitNode(t, tb, b, isReady)
		if got := h.attachedEnds(sliceURN, "lan"); !slices.Equal(got, []string{a + "/eth1", b + "/eth1"}) {
			t.Errorf("%s: on the link are %v", when, got)
		}
	}
	both("made")
	r := awaitNode(t, tb, a, func(r provider.Resource) bool { return strings.Contains(fmt.Sprint(r), "rx_packets") })
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

	if c, err := trySet(tb, a, provider.Resource{"interfaces": items}); c != nil || err != nil {
		t.Errorf("the same once more: %v, %v", c, err)
	}
	for _, other := range [][]string{{}, items[:1], {items[1], items[0], items[2]}, {"x"}} {
		if c, err := trySet(tb, a, provider.Resource{"interfaces": other}); err == nil || !strings.Contains(err.Error(), "the interfaces of a node cannot be changed; remove the node first") {
			t.Errorf("other interfaces: %v, %v", c, err)
		}
	}
	set(t, tb, a, provider.Resource{"restart_serial": "1"})
	both("restarted")
	setUntilReady(t, tb, a, provider.Resource{"power": "off"})
	if got := h.attachedEnds(sliceURN, "lan"); !slices.Equal(got, []string{b + "/eth1"}) {
		t.Errorf("with one node off: %v", got)
	}
	set(t, tb, a, provider.Resource{"power": "on"})
	both("off and on")
	h.killSystem(b)
	awaitNode(t, tb, b, func(r provider.Resource) bool { return isReady(r) && h.operationCount("start") == 5 })
	both("ended by itself")
	stop()
	h.mu.Lock()
	h.fabric[sliceID(sliceURN)].links = map[string]fabric.Link{} // its vswitch process has ended
	h.mu.Unlock()
	tb, stop = h.run(-1)
	both("adopted")
	if h.starts[a] != 3 {
		t.Errorf("a was started %d times", h.starts[a])
	}

	remove(t, tb, a)
	awaitNode(t, tb, b, func(provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		links := h.fabric[sliceID(sliceURN)].links
		return len(links) == 1 && len(links[linkID("lan")].Ends) == 1
	})
	h.failOperation("remove network", errors.New("busy"))
	set(t, tb, b, absent)
	awaitNode(t, tb, b, provider.Gone) // only the next program removes its network
	// A node that is created again immediately gets its links.
	setUntilReady(t, tb, b, newLinkedNode("b", interfaceItem("b:0", "lan", "10.0.0.2/24", "")))
	h.mu.Lock()
	if got := len(h.fabric[sliceID(sliceURN)].links[linkID("lan")].Ends); got != 1 {
		t.Errorf("the LAN of the node that came again has %d ends", got)
	}
	delete(h.fails, "remove network")
	h.mu.Unlock()
	remove(t, tb, b)
	h.checkNothingLeft(t, tb)
	h.checkNetworks(t)
}

func TestLinksAreCreatedOncePerBatch(t *testing.T) {
	h := newFakeHost(t)
	tb := h.open(-1)
	tb.linkDelay, tb.peerUpdateDelay = 500*time.Millisecond, 100*time.Millisecond
	stop := h.startServing(tb)
	defer stop()
	const n = 60
	begun := time.Now()
	all, names := map[string]provider.Resource{}, []string{}
	for i := range n {
		names = append(names, nodeName(i))
		set(t, tb, nodeName(i), newLinkedNode(fmt.Sprintf("n%d", i), interfaceItem("if", "lan", fmt.Sprintf("10.0.0.%d/24", i+1), "")))
	}
	for _, name := range names {
		awaitNode(t, tb, name, isReady)
	}
	if got := len(h.attachedEnds(sliceURN, "lan")); got != n {
		t.Errorf("%d ends are on the link", got)
	}
	// On a slow host there are pauses between nodes.
	most := func() int { return n/10 + int(time.Since(begun)/tb.peerUpdateDelay) }
	made := h.operationCount("set link")
	if made > most() {
		t.Errorf("the link of %d nodes was put %d times, may be %d", n, made, most())
	}
	begun = time.Now()
	for _, name := range names[:n/2] {
		all[name] = absent
	}
	setAll(t, tb, all)
	for _, name := range names[:n/2] {
		awaitNode(t, tb, name, provider.Gone)
	}
	awaitNode(t, tb, names[n-1], func(provider.Resource) bool { return len(h.attachedEnds(sliceURN, "lan")) == n/2 })
	if gone := h.operationCount("set link") - made; gone > most() {
		t.Errorf("when %d nodes left, it was put %d times, may be %d", n/2, gone, most())
	}
	h.checkNetworks(t)
}

// A slice whose fabric hangs or fails does not affect other slices.
func TestHangingFabricDelaysNoOtherSlice(t *testing.T) {
	for _, operation := range []string{"set link", "attach end", "remove network", "counters"} {
		t.Run(operation, func(t *testing.T) {
			h := newFakeHost(t)
			tb, stop := h.run(-1)
			defer stop()
			hang := make(chan struct{})
			all := map[string]provider.Resource{}
			h.mu.Lock()
			for i := range 24 { // in twelve slices, more than any semaphore has places
				slice := sliceURN + fmt.Sprint(i/2)
				h.slow[operation+" "+sliceID(slice)] = hang
				all[nodeName(i)] = newNode(fmt.Sprintf("n%d", i), slice, "alice")
				all[nodeName(i)]["interfaces"] = []string{fmt.Sprintf(`{"client_id":"%d","link":"lan"}`, i)}
			}
			h.mu.Unlock()
			other := nodeName(99)
			all[other] = newNode("other", sliceURN, "alice")
			all[other]["interfaces"] = []string{`{"client_id":"0","link":"lan"}`}
			setAll(t, tb, all)
			awaitNode(t, tb, other, isReady)
			if operation == "remove network" || operation == "counters" {
				for i := range 24 {
					awaitNode(t, tb, nodeName(i), isReady)
				}
			} else {
				awaitNode(t, tb, nodeName(1), func(r provider.Resource) bool { return r.Text("state") == "changing" })
			}
			for i := range 24 {
				set(t, tb, nodeName(i), absent)
			}
			set(t, tb, other, provider.Resource{"restart_serial": "1"})
			awaitNode(t, tb, other, func(r provider.Resource) bool { return isReady(r) && r.Text("restart_serial") == "1" })
			h.mu.Lock()
			clear(h.slow)
			h.mu.Unlock()
			close(hang)
			for i := range 24 {
				awaitNode(t, tb, nodeName(i), provider.Gone)
			}
			remove(t, tb, other)
			h.checkNothingLeft(t, tb)
			h.checkNetworks(t)
		})
	}
}

// Networks and links of an earlier program that no record mentions are removed.
func TestLinksWithoutARecordAreRemoved(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", ""))})
	awaitNode(t, tb, a, isReady)
	stop()
	h.mu.Lock()
	h.fabric["deadbeef"] = &doubleNetwork{map[string]fabric.Link{"x": {}}, map[string]int{}}
	h.fabric[sliceID(sliceURN)].links["old"] = fabric.Link{}
	h.fails["remove network"] = errors.New("busy") // the first time
	h.mu.Unlock()
	tb, stop = h.run(-1)
	defer stop()
	time.AfterFunc(20*time.Millisecond, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.fails, "remove network")
	})
	awaitNode(t, tb, a, func(r provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return isReady(r) && len(h.fabric) == 1 && len(h.fabric[sliceID(sliceURN)].links) == 1
	})
	h.checkNetworks(t)
}

func TestSlowCountersDoNotDelayGet(t *testing.T) {
	h, tb := runFakeHost(t)
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", ""))})
	awaitNode(t, tb, a, isReady)
	known := func(r provider.Resource) bool { return strings.Contains(fmt.Sprint(r), `"rx_packets":`) }
	awaitNode(t, tb, a, known)
	before := h.operationCount("counters")
	for range 100 {
		getNode(tb, a)
	}
	if reads := h.operationCount("counters") - before; reads > 3 {
		t.Errorf("100 looks read the counters %d times", reads)
	}
	hang := make(chan struct{})
	defer close(hang)
	h.mu.Lock()
	h.slow["counters "+sliceID(sliceURN)] = hang
	h.mu.Unlock()
	time.Sleep(countersAge)
	asked := time.Now()
	if r := getNode(tb, a); !known(r) {
		t.Errorf("while they cannot be read, the last ones are not reported: %v", r)
	}
	if took := time.Since(asked); took > countersTime/2 {
		t.Errorf("a look waited %v for counters", took)
	}
}

func TestDroppedPacketsStayCountedWhenALinkIsRecreated(t *testing.T) {
	var c counterCache
	for _, tt := range []struct {
		rule          string
		rx, raw, want uint64
	}{
		{"at first", 10, 5, 5}, {"more", 20, 7, 7}, {"remade", 21, 0, 7}, {"after that", 30, 2, 9}, {"remade again", 30, 1, 10}, {"the same", 30, 1, 10},
		{"another interface", 3, 1, 1}, {"it continues", 4, 2, 2},
	} {
		c.update(map[string]fabric.Counters{"end": {RxPackets: tt.rx, Dropped: tt.raw}})
		if got := c.byEnd["end"]; got.Dropped != tt.want || got.RxPackets != tt.rx {
			t.Errorf("%s: %+v, want %d", tt.rule, got, tt.want)
		}
	}
}

// A node reports which link lost many packets because the host is too slow, and so does the log.
// Losses of ordinary bursts are not reported.
func TestOverrunsAreReported(t *testing.T) {
	h := newFakeHost(t)
	var log wait.Buffer
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	tb, stop := h.run(-1)
	defer stop()
	a := nodeName(1)
	setAll(t, tb, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", ""))})
	awaitNode(t, tb, a, isReady)
	loses := func(n uint64) {
		h.mu.Lock()
		h.overruns = n
		h.mu.Unlock()
		awaitNode(t, tb, a, func(r provider.Resource) bool {
			return strings.Contains(fmt.Sprint(r), fmt.Sprintf(`"overruns":%d`, n))
		})
	}
	loses(0)
	loses(99)
	if r := getNode(tb, a); r.Text("message") != "" {
		t.Errorf("after a few: %q", r.Text("message"))
	}
	loses(100_099)
	awaitNode(t, tb, a, hasMessage("100000 packets that it sent to link lan were lost"))
	if !strings.Contains(log.String(), "is too slow for the packets of a link") {
		t.Errorf("the log says nothing: %s", &log)
	}
}

func TestLinksAreListedWithExistingEnds(t *testing.T) {
	_, tb := runFakeHost(t)
	a, b := nodeName(1), nodeName(2)
	setAll(t, tb, map[string]provider.Resource{
		a: newLinkedNode("a", interfaceItem("a:0", "lan", "", `,"properties":[{"to":["b:0","c:0"],"capacity":1000},{"to":["c:0"],"latency":5},{"packet_loss":1}]`)),
		b: newLinkedNode("b", interfaceItem("b:0", "lan", "", "")),
	})
	awaitNode(t, tb, a, isReady)
	awaitNode(t, tb, b, isReady)
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
