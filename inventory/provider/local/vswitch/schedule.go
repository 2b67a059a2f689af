package vswitch

import "container/heap"

// schedule holds the paths with waiting frames, in a heap by the due time of their first
// frame.
type schedule struct{ paths pathHeap }

func (s *schedule) due() (at int64, ok bool) {
	if len(s.paths) == 0 {
		return 0, false
	}
	return s.paths[0].queue.due()
}

// update must be called after the first frame of p has changed.
func (s *schedule) update(p *path) {
	_, waits := p.queue.due()
	switch {
	case waits && p.at < 0:
		heap.Push(&s.paths, p)
	case waits:
		heap.Fix(&s.paths, p.at)
	default:
		s.remove(p)
	}
}

// remove removes p, if it is in the schedule.
func (s *schedule) remove(p *path) {
	if p.at >= 0 {
		heap.Remove(&s.paths, p.at)
	}
}

type pathHeap []*path

func (h pathHeap) Len() int { return len(h) }

func (h pathHeap) Less(i, j int) bool {
	a, _ := h[i].queue.due()
	b, _ := h[j].queue.due()
	return a < b
}

func (h pathHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *pathHeap) Push(x any) {
	p := x.(*path)
	p.at = len(*h)
	*h = append(*h, p)
}

func (h *pathHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	p.at = -1
	return p
}
