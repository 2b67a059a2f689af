package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Config is what a Desk works with.
type Config struct {
	Store *store.Store
	// Inventory gives the inventory in force.
	Inventory func() *inventory.Inventory
	// Plan gives what is out of service by an operator's word; nil, or what it
	// gives, for nothing.
	Plan func() *maintenance.Plan
	// AllocatedMax and ProvisionedMax are how far experimenters may renew: beyond
	// them an operator is warned. 0 warns of nothing.
	AllocatedMax, ProvisionedMax time.Duration
	// Orphans counts the orphans (resources of a provider without a sliver) by the names
	// of provider and component; nil if the count is unknown.
	Orphans func() map[[2]string]int
	// Silent reports whether a provider has not answered for too long, and when it last did;
	// nil if that is not known.
	Silent func(provider string) (since time.Time, silent bool)
	// Wake tells the runner that there is work; it must not block. nil wakes nobody.
	Wake func()
	// Manifest makes the manifest of a slice, of one that was shut down, too.
	Manifest func(slice urn.URN) ([]byte, error)
}

// Desk is where operators look and act. All methods may be called at the same
// time.
type Desk struct{ cfg Config }

// New makes a Desk over opened rooms.
func New(c Config) *Desk {
	if c.Plan == nil {
		c.Plan = func() *maintenance.Plan { return nil }
	}
	if c.Silent == nil {
		c.Silent = func(string) (since time.Time, silent bool) { return }
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	return &Desk{c}
}

// RefusedError is what is wrong with a question or an order, in words for an
// operator. Nothing has happened.
type RefusedError struct {
	Text      string
	malformed bool // its form, so that nothing else was looked at
}

func (e *RefusedError) Error() string { return e.Text }

// refuse makes a RefusedError.
func refuse(format string, args ...any) error {
	return &RefusedError{Text: shown(fmt.Sprintf(format, args...))}
}

// shown is a text for a terminal: what a client wrote may be in it.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// commit runs a decision and wakes the runner. What the rules of slivers refuse
// is an operator's mistake, too.
func (d *Desk) commit(ctx context.Context, decide store.Decision) error {
	err := d.cfg.Store.Commit(ctx, decide)
	if e, ok := errors.AsType[*am.Error](err); ok {
		return refuse("%s", e.Msg)
	}
	if err == nil {
		d.cfg.Wake()
	}
	return err
}
