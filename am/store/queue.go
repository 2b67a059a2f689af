package store

import (
	"slices"
	"sync"
)

// queue holds the commits that wait for the committer. Callers take turns: in each round of
// turns, each caller has one commit. So many commits of one caller do not delay the others.
type queue struct {
	mu      sync.Mutex
	filled  *sync.Cond            // signalled by push and close
	waiting map[string][]*pending // by caller, oldest first
	turns   []string              // callers with a waiting commit, in the order of their turns
	size    int
	closed  bool
}

func newQueue() *queue {
	q := &queue{waiting: map[string][]*pending{}}
	q.filled = sync.NewCond(&q.mu)
	return q
}

// push adds a commit. It returns false if the queue is closed.
func (q *queue) push(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if len(q.waiting[p.caller]) == 0 {
		q.turns = append(q.turns, p.caller)
	}
	q.waiting[p.caller] = append(q.waiting[p.caller], p)
	q.size++
	q.filled.Signal()
	return true
}

// putBack inserts commits at the front of their callers' lists. The commits are in the order in
// which pop returned them. A caller without another waiting commit gets the next turn.
func (q *queue) putBack(commits []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range slices.Backward(commits) {
		if len(q.waiting[p.caller]) == 0 {
			q.turns = slices.Insert(q.turns, 0, p.caller)
		}
		q.waiting[p.caller] = slices.Insert(q.waiting[p.caller], 0, p)
		q.size++
	}
}

// pop removes and returns the oldest commit of the caller that has the turn. It returns nil if
// no commit waits.
func (q *queue) pop() *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dequeue()
}

// wait is like pop, but waits for a commit if there is none. It returns nil when the queue is
// closed and empty.
func (q *queue) wait() *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size == 0 && !q.closed {
		q.filled.Wait()
	}
	return q.dequeue()
}

// dequeue is pop for a caller that holds q.mu.
func (q *queue) dequeue() *pending {
	if q.size == 0 {
		return nil
	}
	caller := q.turns[0]
	p := q.waiting[caller][0]
	q.turns = q.turns[1:]
	if rest := q.waiting[caller][1:]; len(rest) > 0 {
		q.waiting[caller] = rest
		q.turns = append(q.turns, caller)
	} else {
		delete(q.waiting, caller)
	}
	q.size--
	return p
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// close refuses further commits.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}
