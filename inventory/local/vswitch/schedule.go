package vswitch

import "container/heap"

// schedule has the paths on which frames wait, as a heap: first the one whose
// first frame is due first.
type schedule struct{ paths pathHeap }

// due is when the next frame is to go.
func (s *schedule) due() (at int64, ok bool) {
	if len(s.paths) == 0 {
		return 0, false
	}
	return s.paths[0].wait.due()
}

// settle puts p in its place after its first frame has changed.
func (s *schedule) settle(p *path) {
	_, waits := p.wait.due()
	switch {
	case waits && p.at < 0:
		heap.Push(&s.paths, p)
	case waits:
		heap.Fix(&s.paths, p.at)
	default:
		s.leave(p)
	}
}

// leave takes p out, whether frames wait on it or not.
func (s *schedule) leave(p *path) {
	if p.at >= 0 {
		heap.Remove(&s.paths, p.at)
	}
}

// pathHeap is what package heap orders.
type pathHeap []*path

func (h pathHeap) Len() int { return len(h) }

func (h pathHeap) Less(i, j int) bool {
	a, _ := h[i].wait.due()
	b, _ := h[j].wait.due()
	return a < b
}

func (h pathHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push is of heap.Interface.
func (h *pathHeap) Push(x any) {
	p := x.(*path)
	p.at = len(*h)
	*h = append(*h, p)
}

// Pop is of heap.Interface.
func (h *pathHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	p.at = -1
	return p
}
