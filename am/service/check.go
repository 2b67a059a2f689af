package service

import (
	"cmp"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/credentials"
)

// CheckTargets tells what is wrong with a call whatever its options, its action and its
// request say: its slice is shut down, what it names is not there, or the site takes no
// new work. A caller who finds one of those wrong asks it first, because its error
// matters more.
//
// Errors: those of the method for which g was granted.
func (s *Service) CheckTargets(g credentials.Grant, t Targets, c Call) error {
	if t.Slice.IsZero() && len(t.Slivers) == 0 {
		return nil
	}
	return s.withHistory(s.cfg.Store.Read(func(v *store.View) error {
		if g.Right() == credentials.RightAllocate {
			_, err := rightOver(v, g, t.Slice)
			return cmp.Or(err, s.checkLockdown())
		}
		_, err := resolve(v, g, t, c.BestEffort)
		if err == nil && g.Right() == credentials.RightProvision {
			return s.checkLockdown()
		}
		if g.Right() == credentials.RightDescribe && s.emptyDescribed(t, err) {
			return nil
		}
		return err
	}))
}

// emptyDescribed tells whether Describe makes an empty manifest of what resolve
// did not find.
func (s *Service) emptyDescribed(t Targets, err error) bool {
	return am.CodeOf(err) == am.SearchFailed && !t.Slice.IsZero() && !s.cfg.EmptyDescribeNotFound
}
