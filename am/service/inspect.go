package service

import (
	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Inspect is the manifest of a slice for the site's operators, who need no grant
// and look at slices that were shut down, too.
//
// Errors: SearchFailed for a slice without slivers.
func (s *Service) Inspect(slice urn.URN) (manifest []byte, err error) {
	err = s.cfg.Store.Read(func(v *store.View) error {
		live, err := liveSlivers(v, slice)
		if err == nil && len(live) == 0 {
			err = am.Errorf(am.SearchFailed, "slice %s has no slivers at this aggregate", slice).About(slice)
		}
		if err == nil {
			manifest, err = s.manifest(v, reports(live))
		}
		return err
	})
	return manifest, err
}
