package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// budget is a number of bytes in memory that callers share: no caller may have
// more than a part of it, and a reserve is left to small calls.
type budget struct {
	most, perCaller, reserve int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // by caller
}

// newBudget shares most bytes among calls of up to largest.
func newBudget(most, largest int64) *budget {
	part := most / callerPart
	return &budget{
		most: most, perCaller: min(most, max(part, largest+1)), reserve: max(0, min(part, most-largest-1)),
		by: make(map[string]int64),
	}
}

// take adds n bytes to the taken ones of a caller's body; false when there is no
// room for them. The first of a body may come out of the reserve.
func (b *budget) take(caller string, n, taken int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.most
	if taken > 0 {
		most -= b.reserve
	}
	if b.used+n > most || b.by[caller]+n > b.perCaller {
		return false
	}
	b.add(caller, n)
	return true
}

func (b *budget) give(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(caller, -n)
}

func (b *budget) add(caller string, n int64) {
	b.used += n
	if b.by[caller] += n; b.by[caller] == 0 {
		delete(b.by, caller)
	}
}

// errBusy says that the bodies being received fill the memory given to them.
var errBusy = errors.New("too many large requests at once")

// firstChunk holds most calls whole.
const firstChunk = 32 << 10

// read takes a caller's body from r, which ends after limit bytes. A slow or
// lying client costs what it has sent, not what it announced. The caller of
// read calls release when it no longer needs the bytes.
func (b *budget) read(r io.Reader, caller string, announced, limit int64) (body []byte, release func(), err error) {
	whole := limit + 1 // room to see the end without growing
	if announced >= 0 {
		whole = min(whole, announced+1)
	}
	var taken int64
	release = func() { b.give(caller, taken) }
	grow := func(n int64) error {
		if !b.take(caller, n-taken, taken) {
			return errBusy
		}
		taken = n
		bigger := make([]byte, len(body), n)
		copy(bigger, body)
		body = bigger
		return nil
	}
	if err := grow(min(firstChunk, whole)); err != nil {
		return nil, release, err
	}
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, release, nil
		}
		if err != nil {
			return nil, release, err
		}
		if len(body) == cap(body) {
			if err := grow(max(min(2*int64(cap(body)), whole), int64(cap(body))+1)); err != nil {
				return nil, release, err
			}
		}
	}
}

// tooLarge tells whether err is the limit of http.MaxBytesReader.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
