package server

import (
	"errors"
	"io"
	"net/http"

	"patchbay/am/budget"
)

// bodies are the bytes of requests in memory.
type bodies struct{ *budget.Budget }

// errBusy says that the bodies being received fill the memory given to them.
var errBusy = errors.New("too many large requests at once")

// firstChunk holds most calls whole. It may come out of the budget's reserve.
const firstChunk = 32 << 10

// read takes a caller's body from r, which ends after limit bytes. A slow or
// lying client costs what it has sent, not what it announced. The caller of
// read calls release when it no longer needs the bytes.
func (b bodies) read(r io.Reader, caller string, announced, limit int64) (body []byte, release func(), err error) {
	whole := limit + 1 // room to see the end without growing
	if announced >= 0 {
		whole = min(whole, announced+1)
	}
	var taken int64
	release = func() { b.Give(caller, taken) }
	grow := func(n int64) error {
		free := b.Reserve()
		if taken == 0 {
			free = 0
		}
		if !b.Take(caller, n-taken, free) {
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
