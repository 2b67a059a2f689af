package service

import (
	"cmp"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/credentials"
)

// CheckTargets fails if the slice is shut down, a target does not exist, or the site is locked
// down. If the options, the action or the request have an error, too, package api reports the
// error of CheckTargets.
//
// Errors: some of the errors of the method for which g was granted.
func (s *Service) CheckTargets(g credentials.Grant, t Targets, c Call) error {
	if t.Slice.IsZero() && len(t.Slivers) == 0 {
		return nil
	}
	return s.withHistory(s.cfg.Store.Read(func(v *store.View) error {
		if g.Right() == credentials.RightAllocate {
			_, err := checkRight(v, g, t.Slice)
			return cmp.Or(err, s.checkLockdown())
		}
		_, err := resolve(v, g, t, c.BestEffort)
		if err == nil && g.Right() == credentials.RightProvision {
			return s.checkLockdown()
		}
		if g.Right() == credentials.RightDescribe && s.isEmptyDescribe(t, err) {
			return nil
		}
		return err
	}))
}

// isEmptyDescribe reports whether Describe answers the error err of resolve with an empty
// manifest.
func (s *Service) isEmptyDescribe(t Targets, err error) bool {
	return am.CodeOf(err) == am.SearchFailed && !t.Slice.IsZero() && !s.cfg.EmptyDescribeNotFound
}
