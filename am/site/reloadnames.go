package site

import (
	"errors"
	"fmt"

	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/inventory"
)

// keepsOutOfService refuses an inventory that gives another name to a component
// which the maintenance file has out of service by its name: it would be in service
// again without a word.
func (s *Site) keepsOutOfService(was, now *inventory.Inventory) error {
	plan, err := maintenance.Read(s.config.Maintenance)
	if err != nil {
		plan = s.upkeep.shown.Load() // what it said before stays in force, and who reads it tells why
	}
	renamed := func(name string) (*inventory.Component, bool) {
		old, ok := was.ComponentNamed(name)
		if _, stays := now.ComponentNamed(name); !ok || stays {
			return nil, false
		}
		return now.Component(old.URN)
	}
	var errs []error
	for _, x := range plan.Unknown(func(name string) bool { _, ok := renamed(name); return !ok }) {
		if x.Line == 0 {
			continue // in no file, and looked at anew
		}
		c, _ := renamed(x.Name)
		errs = append(errs, fmt.Errorf("%s: %s is out of service under this name, and would be in service as %s; put the new name there too, or lift it first (patchbay undrain, patchbay maintenance)",
			display.Place(s.config.Maintenance, x.Line), x.Name, c.Name))
	}
	return errors.Join(errs...)
}
