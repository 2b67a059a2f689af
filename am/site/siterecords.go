package site

import (
	"context"

	"patchbay/am/audit"
)

// openRecords opens what a site that is about to serve keeps: its store, the audit,
// and what of both is still to be told to hooks.
func (s *Site) openRecords(context.Context) (err error) {
	c := s.config
	if s.store, err = c.openStore(s.clock.Now, s.tellBroken); err != nil {
		return err
	}
	if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Log: s.log, Now: s.clock.Now}); err != nil {
		return err
	}
	return s.openHooks()
}

// tellBroken says what keeps the store from promising anything more.
func (s *Site) tellBroken(why error) {
	s.log.Error("the store promises nothing more; calls that would change something are refused until the next start", "state", s.config.State, "error", why)
}
