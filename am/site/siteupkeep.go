package site

import (
	"context"

	"patchbay/am/maintenance"
)

// openUpkeep reads what is out of service at a site that is about to serve.
func (s *Site) openUpkeep(ctx context.Context) error {
	s.upkeep = newUpkeep(s.config.Maintenance, s.index.Inventory, s.store, s.aggregate, s.log)
	if s.config.readOnly {
		s.upkeep.hold.lockdown = &maintenance.Lockdown{Text: errReadOnly.Error()}
	}
	if err := s.lockRestored(); err != nil {
		return err
	}
	return s.upkeep.read(ctx)
}
