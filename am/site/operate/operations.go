package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Config is the configuration of Operations.
type Config struct {
	Store *store.Store
	// Inventory returns the inventory in force.
	Inventory func() *inventory.Inventory
	// Plan returns the maintenance plan in force. Plan and its result may be nil.
	Plan func() *maintenance.Plan
	// AllocatedMax and ProvisionedMax are the limits for renewals by experimenters. An
	// operator who exceeds them gets a warning; 0 means no limit.
	AllocatedMax, ProvisionedMax time.Duration
	// Reading returns the options with which the site reads requests.
	Reading func(*inventory.Inventory) rspec.ReadOptions
	// Orphans returns the number of orphans (resources of a provider without a sliver) by the
	// names of provider and component. Orphans is nil if the number is unknown.
	Orphans func() map[[2]string]int
	// Silent reports whether a provider has not answered for too long, and the time of its last
	// answer. Silent may be nil.
	Silent func(provider string) (since time.Time, silent bool)
	// Wake wakes the runner; it must not block. It may be nil.
	Wake func()
	// Manifest returns the manifest of a slice, even of one that was shut down.
	Manifest func(slice urn.URN) ([]byte, error)
}

// Operations lists what a site holds and carries out operators' orders. Its methods may
// be called concurrently.
type Operations struct{ cfg Config }

// New returns Operations over an open store.
func New(c Config) *Operations {
	if c.Plan == nil {
		c.Plan = func() *maintenance.Plan { return nil }
	}
	if c.Silent == nil {
		c.Silent = func(string) (since time.Time, silent bool) { return }
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	return &Operations{c}
}

// RefusedError refuses a query or an order, with a text for an operator. Nothing has
// changed.
type RefusedError struct {
	Text      string
	malformed bool // the request is malformed, so its content was not checked
	// beingRemoved means that all slivers of the slice are being removed already.
	beingRemoved bool
}

func (e *RefusedError) Error() string { return e.Text }

func refuse(format string, args ...any) error {
	return &RefusedError{Text: printable(fmt.Sprintf(format, args...))}
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// commit writes a decision to the store, and wakes the runner. It returns an *am.Error as a
// *RefusedError.
func (d *Operations) commit(ctx context.Context, decide store.Decision) error {
	err := d.cfg.Store.Commit(ctx, decide)
	if e, ok := errors.AsType[*am.Error](err); ok {
		return refuse("%s", e.Msg)
	}
	if err == nil {
		d.cfg.Wake()
	}
	return err
}
