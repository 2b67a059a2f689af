package credentials

import (
	"maps"
	"slices"
	"strings"
)

// Right is the right that a method requires.
type Right string

// Each method that requires credentials has a right.
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

// The privileges are in lower case.
var (
	readingPrivileges  = []string{"*", "embed", "control", "sa", "info", "pi", "authority"}
	changingPrivileges = []string{"*", "embed", "control", "sa", "bind", "instantiate", "pi", "authority"}
	shutdownPrivileges = []string{"*", "embed", "sa", "instantiate", "pi", "authority"}
)

// allowedBy lists the privileges that give a right; one is enough. If the list is empty,
// any credential of the caller is enough. No specification defines this table; it is the
// union of the tables of gcf, SFA and Emulab. Only Shutdown does not accept control, as in gcf,
// since plain members of a slice have it.
var allowedBy = map[Right][]string{
	RightListResources:            nil,
	RightDescribe:                 readingPrivileges,
	RightStatus:                   readingPrivileges,
	RightAllocate:                 changingPrivileges,
	RightProvision:                changingPrivileges,
	RightPerformOperationalAction: changingPrivileges,
	RightRenew:                    changingPrivileges,
	RightDelete:                   changingPrivileges,
	RightShutdown:                 shutdownPrivileges,
}

// Rights returns all rights in alphabetic order.
func Rights() []Right { return slices.Sorted(maps.Keys(allowedBy)) }

func (r Right) isOverSlice() bool { return len(allowedBy[r]) > 0 }

// isAllowedBy reports whether one of the privileges, in any case, gives the right.
func (r Right) isAllowedBy(privileges []string) bool {
	for _, p := range privileges {
		if slices.Contains(allowedBy[r], strings.ToLower(p)) {
			return true
		}
	}
	return false
}
