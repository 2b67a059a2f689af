package operate

import "sync"

// shelf bounds, together, what was made and waits to be read. Whoever reads slowly keeps
// nobody from it: what does not fit pushes out what has moved the least lately.
type shelf struct {
	mu   sync.Mutex
	room int // in bytes
	turn int // of the last that was put or moved
	all  map[*shelved]bool
}

// shelved is one answer on a shelf.
type shelved struct {
	shelf *shelf
	size  int
	turn  int
	drop  func() // ends its reading; called once at most, and not after take
}

func newShelf(room int) *shelf { return &shelf{room: room, all: map[*shelved]bool{}} }

// put makes room for an answer of some bytes, however many. drop must not block.
func (s *shelf) put(size int, drop func()) *shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.room < size && len(s.all) > 0 {
		var slowest *shelved
		for x := range s.all {
			if slowest == nil || x.turn < slowest.turn {
				slowest = x
			}
		}
		slowest.leave()
		slowest.drop()
	}
	s.turn++
	x := &shelved{s, size, s.turn, drop}
	s.all[x] = true
	s.room -= size
	return x
}

// leave takes it from the shelf.
func (x *shelved) leave() {
	if x.shelf.all[x] {
		delete(x.shelf.all, x)
		x.shelf.room += x.size
	}
}

// take ends it.
func (x *shelved) take() {
	x.shelf.mu.Lock()
	defer x.shelf.mu.Unlock()
	x.leave()
}

// move notes that a part of it was read, and calls more before the next, unless it was
// pushed out: then it gives false.
func (x *shelved) move(more func()) bool {
	x.shelf.mu.Lock()
	defer x.shelf.mu.Unlock()
	if !x.shelf.all[x] {
		return false
	}
	x.shelf.turn++
	x.turn = x.shelf.turn
	more()
	return true
}
