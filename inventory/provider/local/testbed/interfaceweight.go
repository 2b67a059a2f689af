package testbed

import "patchbay/inventory/provider"

// Bounds on the memory for interfaces, in bytes as estimated by weight.
const (
	// freeInterfaceWeight is available to each node, however much other nodes use.
	freeInterfaceWeight = 32 << 10
	// sharedInterfaceWeight is shared by all nodes that need more than freeInterfaceWeight.
	sharedInterfaceWeight = 128 << 20
)

var errInterfaceWeight = provider.Refuse(provider.Failed, "the nodes of this testbed have more properties of links, addresses and names than it can hold; request fewer, or first remove other nodes with many")

// weight estimates the memory for interfaces: their texts, the parsed form, and the
// planned links.
func weight(all []iface) int {
	n := 0
	for i := range all {
		f := &all[i]
		n += 512 + 3*len(f.text) + 256*len(f.properties)
		for _, p := range f.properties {
			n += 64 * len(p.To)
		}
	}
	return n
}

// excessWeight returns the weight if it exceeds freeInterfaceWeight, otherwise 0.
func excessWeight(all []iface) int {
	if n := weight(all); n > freeInterfaceWeight {
		return n
	}
	return 0
}

// totalExcessWeight must be called with t.mu held.
func (t *Testbed) totalExcessWeight() (n int) {
	for _, nc := range t.nodes {
		n += nc.excessWeight
	}
	return n
}
