package hook

import (
	"context"
	"time"
)

// Defaults of a Hook.
const (
	DefaultBefore  = time.Hour
	DefaultTimeout = 30 * time.Second
)

// Hook is one that is told of events: an executable or a URL.
type Hook struct {
	// Name tells it from the others, also after a restart: events that wait are for
	// hooks by name.
	Name string
	// Command is the path of an executable; URL, where to POST. One of them is set.
	Command, URL string
	// Dir is the working directory of Command.
	Dir string
	// Secret is a file with the key of signatures for URL; "" for none. It is read
	// for each delivery.
	Secret string
	// CA is a PEM file with the certificates that vouch for URL, instead of those
	// that the host trusts; "" for these.
	CA string
	// Events are what it is told; Usual if there are none.
	Events []Word
	// Before is how long before the end of a lease it is told Expiring.
	Before time.Duration
	// Timeout is how long one delivery may take.
	Timeout time.Duration
}

// sender hands one event over. It returns nil when the event was taken, and
// otherwise what an operator can do something about. It ends soon after ctx.
type sender interface {
	send(ctx context.Context, e Event) error
	// close frees what is kept between deliveries.
	close()
}

func (h *Hook) sender() sender {
	if h.URL != "" {
		return &receiver{hook: h}
	}
	return &command{h}
}
