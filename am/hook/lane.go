package hook

import (
	"container/heap"
	"time"
)

// lane is what one hook has yet to take of one slice: ids of messages, the oldest
// first. The first is delivered until it is taken, and only then the next.
type lane struct {
	slice    string // the key
	ids      []string
	busy     bool // the first is being delivered, or noted as taken
	failures int  // of the first
	due      time.Time
}

// queue is what one hook has yet to take. A lane that is not busy is in one of
// fresh, again and waiting.
type queue struct {
	hook    *Hook
	sender  sender
	lanes   map[string]*lane // by the slice's key
	fresh   []*lane          // may be delivered at once
	again   []*lane          // as fresh, after failures
	waiting byDue            // for another attempt

	running  int // deliveries
	retrying int // of these, after failures

	count   int       // messages that wait
	broken  bool      // the last delivery failed
	since   time.Time // of the first that did, while it is broken
	failed  int       // failures since then
	because string    // the last error
	silent  time.Time
	unsaid  int // failures since the last line in the log
}

// add appends a message of a slice.
func (q *queue) add(slice, id string) {
	n := q.lanes[slice]
	if n == nil {
		n = &lane{slice: slice}
		q.lanes[slice] = n
	}
	n.ids = append(n.ids, id)
	q.count++
	if len(n.ids) == 1 && !n.busy {
		q.fresh = append(q.fresh, n)
	}
}

// next is the lane to deliver from now, or nil. Lanes that failed have half of the
// places at most, so that slices nobody can help do not stop the others.
func (q *queue) next(now time.Time, parallel int) *lane {
	for len(q.waiting) > 0 && !q.waiting[0].due.After(now) {
		q.again = append(q.again, heap.Pop(&q.waiting).(*lane))
	}
	if q.running >= parallel {
		return nil
	}
	if n := first(&q.fresh); n != nil {
		return n
	}
	if q.retrying < max(1, parallel/2) {
		return first(&q.again)
	}
	return nil
}

// first takes the first lane of a list that has something to deliver.
func first(list *[]*lane) *lane {
	for len(*list) > 0 {
		n := (*list)[0]
		(*list)[0] = nil
		*list = (*list)[1:]
		if len(n.ids) > 0 {
			return n
		}
	}
	return nil
}

// done ends a turn of a lane. The message id is taken or gone.
func (q *queue) done(n *lane, id string) {
	n.busy, n.failures = false, 0
	if len(n.ids) > 0 && n.ids[0] == id {
		n.ids = n.ids[1:]
		q.count--
	}
	if len(n.ids) == 0 {
		delete(q.lanes, n.slice)
		return
	}
	q.fresh = append(q.fresh, n)
}

// retry has a lane wait after a failure.
func (q *queue) retry(n *lane, due time.Time) {
	n.busy, n.due = false, due
	if len(n.ids) == 0 { // it was dropped meanwhile
		delete(q.lanes, n.slice)
		return
	}
	heap.Push(&q.waiting, n)
}

// drop forgets the messages up to an id.
func (q *queue) drop(until string) {
	for slice, n := range q.lanes {
		i := 0
		for i < len(n.ids) && n.ids[i] <= until {
			i++
		}
		n.ids = n.ids[i:]
		q.count -= i
		if i > 0 {
			n.failures = 0
		}
		if len(n.ids) == 0 && !n.busy {
			delete(q.lanes, slice)
		}
	}
}

// byDue is a heap of lanes, the one that is due first on top.
type byDue []*lane

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }
func (b byDue) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byDue) Push(x any)        { *b = append(*b, x.(*lane)) }
func (b *byDue) Pop() any {
	last := len(*b) - 1
	n := (*b)[last]
	*b = (*b)[:last]
	return n
}
