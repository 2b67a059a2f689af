package vswitch

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Bounds of the memory for waiting frames, in bytes: of one path, and of the
// process. A frame that does not fit is dropped.
const (
	maxPathBytes = 64 << 20
	maxBytes     = 256 << 20
)

// maxStock is how much memory a loop keeps for the next frames.
const maxStock = 4 << 20

// room is the memory that the process has left for frames.
type room struct{ left atomic.Int64 }

func newRoom(bytes int64) *room {
	r := new(room)
	r.left.Store(bytes)
	return r
}

// take takes bytes if there are so many.
func (r *room) take(bytes int) bool {
	if r.left.Add(-int64(bytes)) >= 0 {
		return true
	}
	r.left.Add(int64(bytes))
	return false
}

// chunk is a piece of memory for frames, filled from the start. It is not the
// garbage collector's: what is given back is the kernel's at once.
type chunk struct {
	memory     []byte
	class      int
	begin, end int // of what is in it
	next       *chunk
}

// classes are the sizes of chunks: a path that holds little holds little memory.
const classes = 3

func classSize(class int) int { return 4 << 10 << (3 * class) }

// stock is the room of one loop: chunks that were given back lie here until they
// are used again.
type stock struct {
	room *room
	free [classes]*chunk
	kept int // bytes in free
}

// take is a chunk, or nil if there is no room.
func (s *stock) take(class int) *chunk {
	if c := s.free[class]; c != nil {
		s.free[class], c.next = c.next, nil
		s.kept -= len(c.memory)
		return c
	}
	size := classSize(class)
	if !s.room.take(size) {
		s.trim()
		if !s.room.take(size) {
			return nil
		}
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		s.room.left.Add(int64(size))
		return nil
	}
	return &chunk{memory: memory, class: class}
}

// give takes a chunk back.
func (s *stock) give(c *chunk) {
	c.begin, c.end = 0, 0
	if s.kept+len(c.memory) > maxStock {
		s.release(c)
		return
	}
	s.kept += len(c.memory)
	c.next, s.free[c.class] = s.free[c.class], c
}

// trim gives all that is kept back to the kernel.
func (s *stock) trim() {
	for class, c := range s.free {
		for c != nil {
			next := c.next
			s.release(c)
			c = next
		}
		s.free[class] = nil
	}
	s.kept = 0
}

func (s *stock) release(c *chunk) {
	s.room.left.Add(int64(len(c.memory)))
	// It was mapped in this length, so nothing can be wrong with it.
	_ = unix.Munmap(c.memory)
	c.memory = nil
}
