package service

import (
	"context"

	"patchbay/am/store"
	"patchbay/am/urn"
)

// Inspect returns the manifest of a slice for the site's operators. They need no grant
// and may read slices that were shut down.
//
// Errors: SearchFailed for a slice without slivers, and those of manifest.
func (s *Service) Inspect(slice urn.URN) ([]byte, error) {
	text, err := s.manifest(context.Background(), func(v *store.View) (urn.URN, []Report, error) {
		live, err := liveSlivers(v, slice)
		if err == nil && len(live) == 0 {
			err = noSlivers(slice)
		}
		return urn.URN{}, reportsOf(live), err
	})
	return text, s.withHistory(err)
}
