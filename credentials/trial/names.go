package trial

import (
	"fmt"
	"regexp"
	"strings"

	"patchbay/am/urn"
)

// The expressions do not limit the lengths of names, because {0,63} takes long to compile at each
// start.
var (
	userName  = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_]*$`)
	toolName  = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_.]*$`)
	sliceName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9]*$`)
)

// maxAuthority is the maximum length of an authority's name. With such names, the URNs of
// users and slices have at most urn.MaxLength characters.
const maxAuthority = 200

func checkAuthority(name string) error {
	if !urn.ValidAuthority(name) || len(name) > maxAuthority {
		return fmt.Errorf("%q cannot name an authority: write a name of letters, digits, dots, hyphens and underscores, such as example.org, or example.org:project for an authority below it", name)
	}
	return nil
}

// CheckUser returns an error if name is not allowed for a user. An allowed name in lower
// case is also a valid login name on Linux; am.LoginName relies on that.
func CheckUser(name string) error {
	if len(name) > 32 || !userName.MatchString(name) {
		return fmt.Errorf("%q cannot name a user: write a letter, then up to 31 letters, digits, hyphens or underscores", name)
	}
	return nil
}

func checkTool(name string) error {
	if len(name) > 64 || !toolName.MatchString(name) {
		return fmt.Errorf("%q cannot name a tool: write a letter, then up to 63 letters, digits, hyphens, dots or underscores", name)
	}
	return nil
}

// CheckSlice returns an error if name is not allowed for a slice.
func CheckSlice(name string) error {
	if len(name) > 19 || !sliceName.MatchString(name) {
		return fmt.Errorf("%q cannot name a slice: write a letter or digit, then up to 18 letters, digits or hyphens", name)
	}
	return nil
}

func emailDomain(authority string) string {
	top, _, _ := strings.Cut(authority, ":")
	return top
}
