package relay

import (
	"context"
	"errors"
	"log/slog"
)

// Argv0 is the name under which the program runs as the relay.
const Argv0 = "patchbay-relay"

// Options of a Keeper.
type Options struct {
	// Program is the path of this program, which runs again as the relay.
	Program string
	// UID is the user and the group of the relay, who owns nothing. 0: it stays
	// root and keeps its rights, which only tests should want.
	UID uint32
	// Place is called with each new relay process before it does anything, to
	// put it under limits. Nil: nothing is called.
	Place func(pid int) error
	Log   *slog.Logger
}

// ErrClosed says that the Keeper was closed.
var ErrClosed = errors.New("the relay was closed")

// Keeper runs the relay process of a slice while it has links.
type Keeper struct{ o Options }

// New makes a Keeper without links; no process runs until it has one.
func New(o Options) *Keeper { return &Keeper{o: o} }

// Put makes a link, or makes the one of its ID what it shall be.
func (k *Keeper) Put(ctx context.Context, l Link) error { return ErrClosed }

// Remove ends a link. It is no error when there is none.
func (k *Keeper) Remove(ctx context.Context, id string) error { return nil }

// Counters are what went through, by link and port.
func (k *Keeper) Counters(ctx context.Context) (map[string]map[string]Counters, error) {
	return nil, nil
}

// Close ends the relay and all links.
func (k *Keeper) Close() error { return nil }

// Main is the relay process. It does not return.
func Main() {}
