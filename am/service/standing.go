package service

import (
	"cmp"
	"context"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/credentials"
)

// Standing tells what stands against a call whatever its options say: that its
// slice is shut down, that what it names is not there, or that the site takes no
// new work. Who finds an option
// to be wrong asks it first, so that of two mistakes the graver is told.
//
// Errors: those of the method for which g was granted.
func (s *Service) Standing(_ context.Context, g credentials.Grant, t Targets, c Call) error {
	if t.Slice.IsZero() && len(t.Slivers) == 0 {
		return nil
	}
	return s.cfg.Store.Read(func(v *store.View) error {
		if g.Right() == credentials.RightAllocate {
			_, err := over(v, g, t.Slice)
			return cmp.Or(err, s.open())
		}
		_, err := resolve(v, g, t, c.BestEffort)
		if err == nil && g.Right() == credentials.RightProvision {
			return s.open()
		}
		if g.Right() == credentials.RightDescribe && s.emptyDescribed(t, err) {
			return nil
		}
		return err
	})
}

// emptyDescribed tells whether Describe makes an empty manifest of what resolve
// did not find.
func (s *Service) emptyDescribed(t Targets, err error) bool {
	return am.CodeOf(err) == am.SearchFailed && !t.Slice.IsZero() && !s.cfg.EmptyDescribeNotFound
}
