package api

import (
	"context"

	"patchbay/rspec"
)

// largeRequests lets few requests of at least rspec.Large be read at one time.
type largeRequests chan struct{}

const largeTogether = 2

func newLargeRequests() largeRequests { return make(largeRequests, largeTogether) }

// enter waits for a place if the request is large; done gives the place back.
// The error is that of a call whose time is over.
func (l largeRequests) enter(ctx context.Context, size int) (done func(), err error) {
	if size < rspec.Large {
		return func() {}, nil
	}
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
