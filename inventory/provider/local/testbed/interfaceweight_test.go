package testbed

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"patchbay/inventory/provider"
)

// largestInterfaces returns interfaces of the maximal size.
func largestInterfaces() []string {
	var items []string
	for i := range maxInterfaces {
		var properties []string
		for j := range 16 {
			properties = append(properties, fmt.Sprintf(`{"to":["%0200d"],"capacity":%d}`, j, j+1))
		}
		items = append(items, interfaceItem(fmt.Sprint(i), fmt.Sprint("l", i), "", `,"properties":[`+strings.Join(properties, ",")+`]`))
	}
	return items
}

func TestMemoryOfInterfacesIsBounded(t *testing.T) {
	_, tb := runFakeHost(t)
	ifaces, err := parseInterfaces(largestInterfaces())
	if err != nil {
		t.Fatal(err)
	}
	each := excessWeight(ifaces)
	tb.mu.Lock()
	other := tb.newController(nodeName(100)) // registered nowhere
	other.excessWeight, other.removed = sharedInterfaceWeight-each-each/2, true
	tb.nodes[other.id] = other
	tb.mu.Unlock()
	a, b, c := nodeName(1), nodeName(2), nodeName(3)
	asked := map[string]provider.Resource{a: newLinkedNode("a", largestInterfaces()...), b: newLinkedNode("b", largestInterfaces()...), c: newLinkedNode("c", interfaceItem("0", "lan", "", ""))}
	for _, noop := range []bool{true, false} {
		wrong := trySetAll(t, tb, noop, asked)
		if len(wrong) != 1 || !strings.Contains(wrong[b], "more properties of links, addresses and names than it can hold") {
			t.Errorf("noop %v: refused are %q, want the second that is heavy", noop, wrong)
		}
	}
	if err := tb.addNode(b, record{Desired: desiredWith(t, largestInterfaces())}, nil); err != errInterfaceWeight {
		t.Errorf("behind the dry run: %v", err)
	}
	remove(t, tb, a)
	if wrong := trySetAll(t, tb, false, map[string]provider.Resource{b: asked[b]}); len(wrong) > 0 {
		t.Errorf("when the other is gone: %q", wrong)
	}
	tb.mu.Lock()
	delete(tb.nodes, other.id)
	tb.mu.Unlock()
}

func desiredWith(t *testing.T, items []string) desired {
	t.Helper()
	a := desired{Power: provider.On}
	if err := (&requestedChanges{provider.Requested{Interfaces: &items}}).apply(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Interfaces take no more memory than their estimated weight.
func TestWeightEstimatesTheMemory(t *testing.T) {
	many := func(n int, f func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, f(i))
		}
		return strings.Join(all, ",")
	}
	for rule, items := range map[string][]string{
		"long names":       largestInterfaces(),
		"short names":      {interfaceItem("0", "l", "", `,"properties":[{"to":[`+many(1000, func(i int) string { return fmt.Sprintf("%q", fmt.Sprint(i)) })+`],"latency":1}]`)},
		"short properties": {interfaceItem("0", "l", "", `,"properties":[`+many(4000, func(i int) string { return `{}` })+`]`)},
		"properties of 1":  {interfaceItem("0", "l", "", `,"properties":[`+many(1000, func(i int) string { return fmt.Sprintf(`{"to":["%d"]}`, i) })+`]`)},
	} {
		const times = 20
		var kept [times][]iface
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			var err error
			if kept[i], err = parseInterfaces(items); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if is, most := int(after.HeapAlloc-before.HeapAlloc)/times, weight(kept[0]); is > most {
			t.Errorf("%s: they take %d bytes, and weigh %d", rule, is, most)
		}
		runtime.KeepAlive(kept)
	}
}
