package api

import "context"

// largeRequests lets few large requests be worked on at one time: while one is
// read it takes up to seventy times its bytes.
type largeRequests chan struct{}

const (
	largeRequest  = 1 << 20 // bytes from which a request is large
	largeTogether = 2
)

func newLargeRequests() largeRequests { return make(largeRequests, largeTogether) }

// enter waits for a place if the request is large; done gives the place back.
// The error is that of a call whose time is over.
func (l largeRequests) enter(ctx context.Context, size int) (done func(), err error) {
	if size < largeRequest {
		return func() {}, nil
	}
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
