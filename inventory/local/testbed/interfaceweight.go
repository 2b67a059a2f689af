package testbed

import "patchbay/inventory/provider"

// Bounds on the memory that interfaces take, in bytes as weight counts them.
const (
	// freeInterfaceWeight is what each node may have, whatever others have.
	freeInterfaceWeight = 32 << 10
	// sharedInterfaceWeight is for all nodes together that have more.
	sharedInterfaceWeight = 128 << 20
)

var errInterfaceWeight = refusalf(provider.Failed, "the nodes of this testbed have more properties of links, addresses and names than it has room for; ask for fewer, or remove other nodes with many first")

// weight is about what interfaces take: their texts as they are kept and told, what
// is read of them, and what is drawn from that.
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

// excessWeight is the weight of interfaces that are not light.
func excessWeight(all []iface) int {
	if n := weight(all); n > freeInterfaceWeight {
		return n
	}
	return 0
}

// totalExcessWeight is what the heavy interfaces of all nodes weigh, with t.mu held.
func (t *Testbed) totalExcessWeight() (n int) {
	for _, nc := range t.nodes {
		n += nc.excessWeight
	}
	return n
}
