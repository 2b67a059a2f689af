package credentials

import (
	"maps"
	"slices"
	"strings"
)

// Right is the right that a method requires.
type Right string

// The rights, one for each method that requires credentials.
const (
	RightListResources            Right = "ListResources"
	RightDescribe                 Right = "Describe"
	RightStatus                   Right = "Status"
	RightAllocate                 Right = "Allocate"
	RightProvision                Right = "Provision"
	RightPerformOperationalAction Right = "PerformOperationalAction"
	RightRenew                    Right = "Renew"
	RightDelete                   Right = "Delete"
	RightShutdown                 Right = "Shutdown"
)

var (
	reading = []string{"*", "embed", "control", "sa", "info", "pi", "authority"}
	writing = []string{"*", "embed", "control", "sa", "bind", "instantiate", "pi", "authority"}
	halting = []string{"*", "embed", "control", "sa", "instantiate", "pi", "authority"}
)

// table lists the privileges that carry a right; any one of them suffices. An empty row
// requires any credential of the caller. The table is the union of what gcf, SFA and
// Emulab accept, since no specification defines one.
var table = map[Right][]string{
	RightListResources:            nil,
	RightDescribe:                 reading,
	RightStatus:                   reading,
	RightAllocate:                 writing,
	RightProvision:                writing,
	RightPerformOperationalAction: writing,
	RightRenew:                    writing,
	RightDelete:                   writing,
	RightShutdown:                 halting,
}

// Rights returns all rights in alphabetic order.
func Rights() []Right { return slices.Sorted(maps.Keys(table)) }

// overSlice reports whether r is a right over a slice.
func (r Right) overSlice() bool { return len(table[r]) > 0 }

// carriedBy reports whether one of the privileges, in any case, carries r.
func (r Right) carriedBy(privileges []string) bool {
	for _, p := range privileges {
		if slices.Contains(table[r], strings.ToLower(p)) {
			return true
		}
	}
	return false
}
