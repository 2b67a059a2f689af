package urn

import (
	"errors"
	"fmt"
	"strings"
)

// Types of URN that the aggregate manager API and the Federation API name.
const (
	Authority = "authority"
	Image     = "image"
	Interface = "interface"
	Link      = "link"
	Node      = "node"
	Project   = "project"
	Slice     = "slice"
	Sliver    = "sliver"
	Tool      = "tool"
	User      = "user"
)

// MaxLength is the longest URN accepted, in bytes.
const MaxLength = 255

const prefix = "urn:publicid:"

// ErrMalformed is wrapped by every error of Parse.
var ErrMalformed = errors.New("malformed URN")

// URN is one parsed name. The zero value is no name; see IsZero.
type URN struct {
	// Authority is the naming authority with its sub-authorities, joined by colons.
	Authority string
	// Type is the type in lower case: authority, user, slice, sliver, node, …
	Type string
	// Name is the rest, which may contain plus signs.
	Name string
}

// Parse parses a URN. A valid URN has at most MaxLength bytes, and only printable ASCII
// characters without blanks. It consists of the prefix urn:publicid:IDN in upper or lower case,
// the authority, the type and the name, separated by plus signs. The error wraps ErrMalformed
// and names the invalid part.
func Parse(s string) (URN, error) {
	if len(s) > MaxLength {
		return URN{}, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, MaxLength)
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return URN{}, fmt.Errorf("%w: %q holds a blank, control or non-ASCII character", ErrMalformed, s)
		}
	}
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return URN{}, fmt.Errorf("%w: %q does not begin with %s", ErrMalformed, s, prefix)
	}
	parts := strings.SplitN(s[len(prefix):], "+", 4)
	if len(parts) != 4 || !strings.EqualFold(parts[0], "IDN") {
		return URN{}, fmt.Errorf("%w: %q is not IDN+authority+type+name", ErrMalformed, s)
	}
	u := URN{Authority: parts[1], Type: parts[2], Name: parts[3]}
	switch {
	case !validAuthority(u.Authority):
		return URN{}, fmt.Errorf("%w: %q has no valid authority", ErrMalformed, s)
	case !validType(u.Type):
		return URN{}, fmt.Errorf("%w: %q has no valid type", ErrMalformed, s)
	case u.Name == "":
		return URN{}, fmt.Errorf("%w: %q has no name", ErrMalformed, s)
	case strings.Contains(u.Name, "%00"):
		return URN{}, fmt.Errorf("%w: %q holds an encoded NUL", ErrMalformed, s)
	}
	return u, nil
}

// MustParse returns the parsed URN of a constant or test. It panics if s is invalid.
func MustParse(s string) URN {
	u, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// ValidAuthority reports whether s can be the authority of a URN: labels of letters,
// digits, dots, hyphens and underscores, joined by colons. A label begins with a letter or
// a digit.
func ValidAuthority(s string) bool { return validAuthority(s) }

func validAuthority(s string) bool {
	for label := range strings.SplitSeq(s, ":") {
		if label == "" || !isAlphanumeric(label[0]) {
			return false
		}
		for i := 1; i < len(label); i++ {
			if c := label[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
				return false
			}
		}
	}
	return true
}

func validType(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// String returns the URN as text, or "" for the zero URN. The prefix is in lower case; the
// other parts are as they were spelled.
func (u URN) String() string {
	if u.IsZero() {
		return ""
	}
	return prefix + "IDN+" + u.Authority + "+" + u.Type + "+" + u.Name
}

// IsZero reports whether u is the zero URN.
func (u URN) IsZero() bool { return u == URN{} }

// Key returns a spelling by which URNs are compared: two URNs are equal if and only if
// their keys are. The case of authorities is ignored, and so is the case of the names of
// slices, slivers, users, projects and authorities. All other names are case-sensitive.
func (u URN) Key() string {
	if u.IsZero() {
		return ""
	}
	name := u.Name
	switch u.Type {
	case Slice, Sliver, User, Project, Authority:
		name = Lower(name)
	}
	return prefix + "IDN+" + Lower(u.Authority) + "+" + u.Type + "+" + name
}

// Equal reports whether u and v have the same Key.
func (u URN) Equal(v URN) bool { return u == v || u.Key() == v.Key() }

// MarshalText returns the URN's text for JSON and YAML.
func (u URN) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText sets u to the parsed URN, or to the zero URN if the text is empty.
func (u *URN) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*u = URN{}
		return nil
	}
	v, err := Parse(string(b))
	if err == nil {
		*u = v
	}
	return err
}

// Covers reports whether child is the authority parent or one of its sub-authorities. A
// sub-authority is parent followed by a colon and more labels.
func Covers(parent, child string) bool {
	if parent == "" || len(child) < len(parent) || !strings.EqualFold(parent, child[:len(parent)]) {
		return false
	}
	return len(child) == len(parent) || child[len(parent)] == ':'
}

// SameManager reports whether u and v are URNs of the same aggregate manager. The endings
// +authority+cm and +authority+am are equivalent.
func SameManager(u, v URN) bool {
	return isManager(u) && isManager(v) && strings.EqualFold(u.Authority, v.Authority)
}

func isManager(u URN) bool {
	return u.Type == Authority && (strings.EqualFold(u.Name, "cm") || strings.EqualFold(u.Name, "am"))
}

// Lower returns s with its ASCII letters in lower case. It changes no other letters, because
// that could make two different names equal.
func Lower(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
