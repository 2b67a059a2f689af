package service

import (
	"context"

	"patchbay/am/store"
	"patchbay/am/urn"
)

// Inspect is the manifest of a slice for the site's operators, who need no grant
// and look at slices that were shut down, too.
//
// Errors: SearchFailed for a slice without slivers, and those of manifest.
func (s *Service) Inspect(slice urn.URN) ([]byte, error) {
	text, err := s.manifest(context.Background(), func(v *store.View) (urn.URN, []Report, error) {
		live, err := liveSlivers(v, slice)
		if err == nil && len(live) == 0 {
			err = noSlivers(slice)
		}
		return urn.URN{}, reports(live), err
	})
	return text, s.withHistory(err)
}
