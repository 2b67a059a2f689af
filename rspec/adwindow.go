package rspec

import (
	"strconv"
	"time"
)

// AdWindow makes an advertisement about the time from From up to Until.
type AdWindow struct {
	From, Until time.Time
	// Leases are times in which nodes are taken, in NITOS' extension. The document does not say by whom.
	Leases []AdLease
}

// AdLease is a time in which nodes are taken.
type AdLease struct {
	From, Until time.Time
	Nodes       []int // numbers of nodes of the Site
}

// leaseRefs returns the references of each node to leases; nil if there are no leases.
func (w *AdWindow) leaseRefs(nodes int) [][]int {
	if w == nil || len(w.Leases) == 0 {
		return nil
	}
	refs := make([][]int, nodes)
	for n, l := range w.Leases {
		for _, i := range l.Nodes {
			refs[i] = append(refs[i], n)
		}
	}
	return refs
}

// append appends the elements of the root.
func (w *AdWindow) append(b []byte) []byte {
	if w == nil {
		return b
	}
	b = append(b, ` <schedule xmlns="`+scheduleSpace+`" from="`+stamp(w.From)+`" until="`+stamp(w.Until)+"\"/>\n"...)
	for i, l := range w.Leases {
		b = append(b, ` <lease xmlns="`+nitosSpace+`" leaseID="lease`+strconv.Itoa(i+1)+`" valid_from="`+stamp(l.From)+`" valid_until="`+stamp(l.Until)+"\"/>\n"...)
	}
	return b
}

func appendLeaseRefs(b []byte, refs []int) []byte {
	for _, n := range refs {
		b = append(b, `<lease_ref xmlns="`+nitosSpace+`" id_ref="lease`...)
		b = strconv.AppendInt(b, int64(n+1), 10)
		b = append(b, `"/>`...)
	}
	return b
}
