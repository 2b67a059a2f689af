package server

import (
	"errors"
	"io"
	"net/http"

	"patchbay/am/service/budget"
)

type bodies struct{ *budget.Budget }

var errBusy = errors.New("too many large requests at once")

// firstChunk is the number of bytes that read allocates before any byte has arrived. It suffices
// for most calls. Only these bytes may come from the budget's reserve.
const firstChunk = 32 << 10

// read reads the body of a caller's request from r, which must fail after limit bytes. announced
// is the client's Content-Length; -1 if unknown. A client may announce more than it sends, so
// read takes memory only as bytes arrive. It returns errBusy if the budget is used up. release is
// never nil; call it when the body is no longer used.
func (b bodies) read(r io.Reader, caller string, announced, limit int64) (body []byte, release func(), err error) {
	whole := limit + 1 // one byte more, so that read finds the end without growing the buffer
	if announced >= 0 {
		whole = min(whole, announced+1)
	}
	var taken int64
	release = func() { b.Release(caller, taken) }
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

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
