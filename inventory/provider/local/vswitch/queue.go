package vswitch

import "encoding/binary"

// queue is the FIFO queue of a path's frames, in chunks.
type queue struct {
	pool        *chunkPool
	first, last *chunk
	bytes       int // size of all chunks
}

type entry struct {
	due      int64
	from, to uint16
	frame    []byte
}

// everyone, as the port number of a frame, means all ports of the frame's path.
const everyone = 1<<16 - 1

// entrySize is the size of an entry in a chunk, without the frame.
const entrySize = 8 + 2 + 2 + 4

// push copies the frame of e. It reports whether there was room.
func (q *queue) push(e entry) bool {
	size := entrySize + len(e.frame)
	if q.last == nil || len(q.last.memory)-q.last.end < size {
		if !q.grow(size) {
			return false
		}
	}
	b := q.last.memory[q.last.end:]
	binary.NativeEndian.PutUint64(b, uint64(e.due))
	binary.NativeEndian.PutUint16(b[8:], e.from)
	binary.NativeEndian.PutUint16(b[10:], e.to)
	binary.NativeEndian.PutUint32(b[12:], uint32(len(e.frame)))
	copy(b[entrySize:], e.frame)
	q.last.end += size
	return true
}

// grow adds a chunk for at least size bytes. Chunks get larger as the queue grows.
func (q *queue) grow(size int) bool {
	class := 0
	for class+1 < classes && (classSize(class) < size || classSize(class) <= q.bytes) {
		class++
	}
	if q.bytes+classSize(class) > maxPathBytes {
		return false
	}
	c := q.pool.get(class)
	if c == nil {
		return false
	}
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.bytes += len(c.memory)
	return true
}

func (q *queue) due() (at int64, ok bool) {
	if q.first == nil {
		return 0, false
	}
	return int64(binary.NativeEndian.Uint64(q.first.memory[q.first.begin:])), true
}

// peek requires a nonempty queue. The frame of the entry is valid until drop.
func (q *queue) peek() entry {
	b := q.first.memory[q.first.begin:]
	size := binary.NativeEndian.Uint32(b[12:])
	return entry{
		due:   int64(binary.NativeEndian.Uint64(b)),
		from:  binary.NativeEndian.Uint16(b[8:]),
		to:    binary.NativeEndian.Uint16(b[10:]),
		frame: b[entrySize : entrySize+size],
	}
}

func (q *queue) drop() {
	c := q.first
	c.begin += entrySize + int(binary.NativeEndian.Uint32(c.memory[c.begin+12:]))
	if c.begin < c.end {
		return
	}
	q.first = c.next
	if q.first == nil {
		q.last = nil
	}
	q.bytes -= len(c.memory)
	c.next = nil
	q.pool.recycle(c)
}

func (q *queue) empty() {
	for c := q.first; c != nil; {
		next := c.next
		c.next = nil
		q.pool.recycle(c)
		c = next
	}
	q.first, q.last, q.bytes = nil, nil, 0
}
