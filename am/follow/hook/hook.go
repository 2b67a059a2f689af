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

// Hook is a receiver of events: an executable or a URL.
type Hook struct {
	// Name identifies the hook, even after a restart: waiting events are stored by name.
	Name string
	// Command is the path of an executable, URL the target of a POST. One of them is set.
	Command, URL string
	// Dir is the working directory of Command.
	Dir string
	// Secret is a file with the key of signatures for URL; "" for none. It is read
	// for each delivery.
	Secret string
	// CA is a PEM file with the CA certificates that are trusted for URL; "" for those
	// of the host.
	CA string
	// Events are the kinds of events that it receives; DefaultKinds if empty.
	Events []Kind
	// Before is the time before the end of a lease at which it receives Expiring.
	Before time.Duration
	// Timeout limits the duration of one delivery.
	Timeout time.Duration
}

// sender delivers one event. It returns nil when the event was taken, and otherwise an
// error that an operator can act on. It returns soon after ctx ends.
type sender interface {
	send(ctx context.Context, e Event) error
	// close releases the resources that are kept between deliveries.
	close()
}

func (h *Hook) sender() sender {
	if h.URL != "" {
		return &receiver{hook: h}
	}
	return &command{h}
}
