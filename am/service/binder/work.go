package binder

import (
	"fmt"

	"patchbay/am"
)

// maxWork limits the work of one Bind. A request of 10,000 equal nodes needs about 100,000 units for
// 10,000 components. Nodes that differ need more, since each of them is compared with all components.
const maxWork = 4_000_000

// work counts what Bind does. One unit is a check of one component for one node, about 30 ns. Every loop over parts of the inventory that runs once for
// each part of a request, or for each different one, adds its length before it runs.
type work struct{ done, limit int }

// add counts units of work. It returns false if the work is over the limit. Then its caller does not do the work.
func (w *work) add(units int) bool {
	if !w.isOver() {
		w.done += units
	}
	return !w.isOver()
}

func (w *work) isOver() bool { return w.done > w.limit }

func (b *binding) workText() string {
	return fmt.Sprintf("the nodes and links of the request differ too much: each different set of constraints, hardware type, colocate, capacity and network takes work for all %d components; use equal values for more of them, or divide the request", len(b.x.inv.Components))
}

// refuseWork refuses w for the work that the request takes.
func (b *binding) refuseWork(w *wire) {
	b.refuseLink(w, am.TooBig, "%s", b.workText())
}
