package server

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// errBusy says that the bodies being received fill the memory given to them.
var errBusy = errors.New("too many large requests at once")

// budget is a number of bytes shared by all bodies in memory.
type budget struct{ left atomic.Int64 }

func newBudget(n int64) *budget {
	b := new(budget)
	b.left.Store(n)
	return b
}

func (b *budget) take(n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.left.Add(n) }

// firstChunk holds most calls whole.
const firstChunk = 32 << 10

// read takes the body from r, whose limit is already set. A slow or lying
// client costs what it has sent, not what it announced. The caller calls
// release when it no longer needs the bytes.
func (b *budget) read(r io.Reader, announced int64) (body []byte, release func(), err error) {
	size := int64(firstChunk)
	if announced >= 0 && announced < size {
		size = announced + 1 // room to see the end without growing
	}
	var taken int64
	release = func() { b.give(taken) }
	grow := func(n int64) error {
		if !b.take(n - taken) {
			return errBusy
		}
		taken = n
		bigger := make([]byte, len(body), n)
		copy(bigger, body)
		body = bigger
		return nil
	}
	if err := grow(size); err != nil {
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
			if err := grow(2 * int64(cap(body))); err != nil {
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
