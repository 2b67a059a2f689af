package site

import (
	"fmt"
	"time"

	"patchbay/am/display"
	"patchbay/am/site/clock"
	"patchbay/am/site/operate"
	"patchbay/am/store"
)

// OpenStateReadOnly opens a store for reading only: the store of a site that is not served, or a
// copy of a store.
func (c *Config) OpenStateReadOnly() (*store.Store, error) {
	readOnly := *c
	readOnly.readOnly = true
	return readOnly.OpenState()
}

// OpenState opens the store of a site that is not served.
func (c *Config) OpenState() (*store.Store, error) { return c.openStore(time.Now, nil) }

// ClockJump describes a jump of the host's clock; "" without one.
func ClockJump(s clock.State) string {
	if !s.Jumped() {
		return ""
	}
	return fmt.Sprintf("the host's clock was set to %s, and is not trusted; leases follow the monotonic clock, and it is %s", display.Time(s.Host), display.Time(s.Site))
}

// trustClock makes the host's clock the time that leases follow. After a jump it returns a
// description of the change, which it also writes to the journal; else "".
func (s *Site) trustClock(operator string) string {
	before := s.clock.Trust()
	if !before.Jumped() {
		return ""
	}
	text := fmt.Sprintf("%s instead of %s", display.Time(before.Host), display.Time(before.Site))
	s.log.Warn("an operator has confirmed that the host's clock is right", "site", before.Site, "host", before.Host, "operator", operator)
	_ = s.recordAct(operate.Note{Event: "clock trusted", Text: text, Operator: operator}) // an error is logged
	s.runner.Wake()
	return text
}
