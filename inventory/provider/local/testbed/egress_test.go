package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/egress"
)

// doubleEgress records which numbers are attached.
type doubleEgress struct {
	mu       sync.Mutex
	attached map[int]int // number of times
	owners   map[int]string
	err      error
}

func (e *doubleEgress) SourceAddresses(number int) []string {
	return []string{fmt.Sprintf("203.0.113.10:%d-%d", 10240+number, 10240+number)}
}

func (e *doubleEgress) SetOwner(number int, owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owners[number] = owner
}

func (e *doubleEgress) Attach(_ context.Context, number int, _ *os.File) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.attached[number]++
	}
	return e.err
}

func (e *doubleEgress) Detach(number int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		delete(e.attached, number)
	}
	return e.err
}

func (e *doubleEgress) Sweep(func(int) bool) error { return nil }
func (e *doubleEgress) Close() error               { return nil }

func (e *doubleEgress) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *doubleEgress) attachedNumbers() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, n := range slices.Sorted(maps.Keys(e.attached)) {
		all = append(all, fmt.Sprintf("%d×%d", n, e.attached[n]))
	}
	return fmt.Sprint(all)
}

// runWithEgress is run with an outside network.
func (h *fakeHost) runWithEgress(e *doubleEgress) (*Testbed, func()) {
	h.t.Helper()
	tb := h.open(-1)
	tb.egress = e
	return tb, h.startServing(tb)
}

func TestNodesKeepTheirEgressNumbers(t *testing.T) {
	h, e := newFakeHost(t), &doubleEgress{attached: map[int]int{}, owners: map[int]string{}}
	tb, stop := h.runWithEgress(e)
	a, b := nodeName(1), nodeName(2)
	for _, name := range []string{a, b} {
		setUntilReady(t, tb, name, newNode("", sliceURN, "alice"))
	}
	if got := e.attachedNumbers(); got != "[1×1 2×1]" {
		t.Errorf("attached are %s", got)
	}
	e.mu.Lock()
	if len(e.owners) != 2 || e.owners[1] != sliceURN || e.owners[2] != sliceURN {
		t.Errorf("their owners are %v", e.owners)
	}
	e.mu.Unlock()
	if s := h.running[a]; s.spec.Hostname != "00000001" || s.cfg.Hostname != s.spec.Hostname {
		t.Errorf("it was started as %q and configured as %q", s.spec.Hostname, s.cfg.Hostname)
	}
	if got := h.running[a].cfg.NameServer; got != egress.Gateway().String() {
		t.Errorf("it asks %q for names", got)
	}
	if got, err := tb.node(b).geniAnswer("control_mac", false); got != egress.MAC(2).String() || err != nil {
		t.Errorf("geni-get control_mac: %q, %v", got, err)
	}
	setUntilReady(t, tb, b, provider.Resource{"restart_serial": "1"})
	if got := e.attachedNumbers(); got != "[1×1 2×2]" {
		t.Errorf("after a restart of the second: %s", got)
	}
	stop()
	tb, stop = h.runWithEgress(e)
	awaitNode(t, tb, a, isReady)
	awaitNode(t, tb, b, isReady)
	if got := e.attachedNumbers(); got != "[1×2 2×3]" {
		t.Errorf("after a restart of up: %s", got)
	}
	remove(t, tb, a)
	setUntilReady(t, tb, nodeName(3), newNode("", sliceURN, "alice"))
	if got := e.attachedNumbers(); got != "[1×1 2×3]" {
		t.Errorf("with another in the place of the first: %s", got)
	}
	stop()
	tb, stop = h.run(-1) // outbound: no
	defer stop()
	awaitNode(t, tb, b, isReady)
	if got := h.running[b].cfg.NameServer; got != "" {
		t.Errorf("without a way outside it asks %q for names", got)
	}
}

func TestFailingEgressFailsNewNodesOnly(t *testing.T) {
	h, e := newFakeHost(t), &doubleEgress{attached: map[int]int{}, owners: map[int]string{}}
	tb, stop := h.runWithEgress(e)
	old, fresh := nodeName(1), nodeName(2)
	setUntilReady(t, tb, old, newNode("", sliceURN, "alice"))
	stop()
	e.fail(errors.New("out of order"))
	tb, stop = h.runWithEgress(e)
	defer stop()
	awaitNode(t, tb, old, isReady)
	set(t, tb, fresh, newNode("", sliceURN, "alice"))
	r := awaitNode(t, tb, fresh, func(r provider.Resource) bool { return r.Text(provider.AttrState) == provider.StateFailed })
	if got := r.Text(provider.AttrMessage); got != "it cannot be connected to the outside network" {
		t.Errorf("it failed with %q", got)
	}
	set(t, tb, fresh, provider.Resource{"restart_serial": "1"})
	e.fail(nil)
	awaitNode(t, tb, fresh, isReady)
	for n := 0; e.attachedNumbers() != "[1×2 2×1]"; n++ { // the old node is retried
		if n > 5000 {
			t.Fatalf("attached are %s", e.attachedNumbers())
		}
		awaitNode(t, tb, old, isReady)
	}
	// Root of the node created a device of that name: no error.
	e.fail(fmt.Errorf("n1: %w", egress.ErrOccupied))
	setUntilReady(t, tb, old, provider.Resource{"restart_serial": "1"})
}

// The second node gets another number, and the held numbers are those saved.
func TestNodesSavedWithTheSameNumber(t *testing.T) {
	h, e := newFakeHost(t), &doubleEgress{attached: map[int]int{}, owners: map[int]string{}}
	tb, stop := h.runWithEgress(e)
	a, b := nodeName(1), nodeName(2)
	for _, name := range []string{a, b} {
		setUntilReady(t, tb, name, newNode("", sliceURN, "alice"))
	}
	stop()
	var rec record
	dir := filepath.Join(h.dir, "state", "nodes", b)
	if err := readJSON(dir, recordFile, &rec); err != nil {
		t.Fatal(err)
	}
	rec.EgressNumber = 1
	if err := writeJSON(dir, recordFile, rec); err != nil {
		t.Fatal(err)
	}
	tb, stop = h.runWithEgress(e)
	defer stop()
	awaitNode(t, tb, a, isReady)
	awaitNode(t, tb, b, isReady)
	if got := tb.node(b).snapshot().EgressNumber; got != 2 || len(tb.egressNodes) != 2 {
		t.Errorf("the second has %d, and held are %v", got, tb.egressNodes)
	}
}

func TestEgressNumbersAreUnique(t *testing.T) {
	tb := newTestbed(Options{})
	lives := map[string]*nodeController{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		lives[id] = tb.newController(id)
	}
	for _, tt := range []struct {
		rule   string
		number int
		id     string
		want   int
	}{
		{"the first", 0, "a", 1},
		{"the next", 0, "b", 2},
		{"its own", 1, "a", 1},
		{"another's", 1, "c", 3},
		{"a saved one that is free", 9, "d", 9},
		{"none that can be", egress.MaxNumber + 1, "e", 4},
	} {
		if got := tb.takeEgressNumber(tt.number, lives[tt.id]); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.rule, got, tt.want)
		}
	}
}

// Addresses of the outside network must not be used on links.
func TestEgressAddressesAreRefusedOnLinks(t *testing.T) {
	for _, tt := range []struct {
		address string
		outside bool
		want    string
	}{
		{"100.64.0.1/24", true, "unsupported: interface 0 requests the address 100.64.0.1, but 100.64.0.0/16 is used for the outside network; choose another, such as one of 10.0.0.0/8"},
		{"100.64.255.254/32", true, "unsupported: interface 0 requests the address 100.64.255.254, but 100.64.0.0/16 is used for the outside network; choose another, such as one of 10.0.0.0/8"},
		{"100.65.0.1/10", true, ""},
		{"10.0.0.1/8", true, ""},
		{"100.64.0.1/24", false, ""},
	} {
		for _, noop := range []bool{true, false} {
			h := newFakeHost(t)
			tb := h.open(-1)
			if tt.outside {
				tb.egress = &doubleEgress{attached: map[int]int{}, owners: map[int]string{}}
			}
			stop := h.startServing(tb)
			a := nodeName(1)
			if got := trySetAll(t, tb, noop, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", tt.address, ""))})[a]; got != tt.want {
				t.Errorf("%s, a way outside %v, a dry run %v: %q, want %q", tt.address, tt.outside, noop, got, tt.want)
			}
			stop()
		}
	}
}
