package vswitch

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Limits of memory for waiting frames, in bytes: of one path, and of the process. Further
// frames are dropped.
const (
	maxPathBytes = 64 << 20
	maxBytes     = 256 << 20
)

// maxPool is how much unused memory a loop keeps, in bytes.
const maxPool = 4 << 20

// memoryBudget is the memory that the process may still use for frames.
type memoryBudget struct{ left atomic.Int64 }

func newMemoryBudget(size int64) *memoryBudget {
	r := new(memoryBudget)
	r.left.Store(size)
	return r
}

func (r *memoryBudget) reserve(size int) bool {
	if r.left.Add(-int64(size)) >= 0 {
		return true
	}
	r.left.Add(int64(size))
	return false
}

// chunk is a piece of memory for frames, filled from the start. It is mapped outside the
// Go heap, so that released memory returns to the kernel at once.
type chunk struct {
	memory     []byte
	class      int
	begin, end int // bounds of the content in memory
	next       *chunk
}

// classes is the number of chunk sizes. Several sizes keep the memory of short queues
// small.
const classes = 3

// classSize returns the size of chunks of a class: 4, 32 or 256 KiB.
func classSize(class int) int { return 4 << 10 << (3 * class) }

// chunkPool keeps unused chunks of one loop for reuse.
type chunkPool struct {
	room *memoryBudget
	free [classes]*chunk
	kept int // bytes in free
}

// get returns nil if the budget is used up.
func (s *chunkPool) get(class int) *chunk {
	if c := s.free[class]; c != nil {
		s.free[class], c.next = c.next, nil
		s.kept -= len(c.memory)
		return c
	}
	size := classSize(class)
	if !s.room.reserve(size) {
		s.trim()
		if !s.room.reserve(size) {
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

func (s *chunkPool) recycle(c *chunk) {
	c.begin, c.end = 0, 0
	if s.kept+len(c.memory) > maxPool {
		s.release(c)
		return
	}
	s.kept += len(c.memory)
	c.next, s.free[c.class] = s.free[c.class], c
}

func (s *chunkPool) trim() {
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

// release returns the memory of a chunk to the kernel and to the budget.
func (s *chunkPool) release(c *chunk) {
	s.room.left.Add(int64(len(c.memory)))
	// The mapping has this length, so Munmap cannot fail.
	_ = unix.Munmap(c.memory)
	c.memory = nil
}
