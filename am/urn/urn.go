package urn

import (
	"errors"
	"fmt"
	"strings"
)

// Types of URN that the aggregate manager API names.
const (
	Authority = "authority"
	Image     = "image"
	Interface = "interface"
	Link      = "link"
	Node      = "node"
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

// URN is one parsed name. The zero value names nothing; see IsZero.
type URN struct {
	// Authority is the naming authority with its sub-authorities, joined by colons.
	Authority string
	// Type is the lower-case kind: authority, user, slice, sliver, node, …
	Type string
	// Name is the rest; it may itself hold plus signs.
	Name string
}

// Parse reads a URN. The prefix is accepted in any case, the rest must be
// IDN+authority+type+name in printable ASCII without blanks, at most MaxLength
// bytes. The error wraps ErrMalformed and says which part is wrong.
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

// MustParse is Parse for constants and tests; it panics on an error.
func MustParse(s string) URN {
	u, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// ValidAuthority reports whether s may stand as the authority of a URN: labels
// of letters, digits, dots, hyphens and underscores, joined by colons.
func ValidAuthority(s string) bool { return validAuthority(s) }

func validAuthority(s string) bool {
	for label := range strings.SplitSeq(s, ":") {
		if label == "" || !alphanumeric(label[0]) {
			return false
		}
		for i := 1; i < len(label); i++ {
			if c := label[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
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

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// String prints the URN with the canonical prefix and its own spelling; the
// zero URN prints as nothing.
func (u URN) String() string {
	if u.IsZero() {
		return ""
	}
	return prefix + "IDN+" + u.Authority + "+" + u.Type + "+" + u.Name
}

// IsZero reports whether u names nothing.
func (u URN) IsZero() bool { return u == URN{} }

// Key is the folded spelling: equal URNs have equal keys, others never.
// Authorities compare without case, and so do the names of slices, slivers
// and users; component names keep theirs.
func (u URN) Key() string {
	if u.IsZero() {
		return ""
	}
	name := u.Name
	switch u.Type {
	case Slice, Sliver, User, Authority:
		name = Lower(name)
	}
	return prefix + "IDN+" + Lower(u.Authority) + "+" + u.Type + "+" + name
}

// Equal reports whether u and v name the same thing (see Key).
func (u URN) Equal(v URN) bool { return u == v || u.Key() == v.Key() }

// MarshalText prints u for JSON and YAML.
func (u URN) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses u; empty text is the zero URN.
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

// Covers reports whether parent is authority over child: it is
// the same, or child is one of its sub-authorities, label by label.
func Covers(parent, child string) bool {
	if parent == "" || len(child) < len(parent) || !strings.EqualFold(parent, child[:len(parent)]) {
		return false
	}
	return len(child) == len(parent) || child[len(parent)] == ':'
}

// SameManager reports whether u names the same aggregate as v, where
// +authority+cm and +authority+am are two spellings of one manager.
func SameManager(u, v URN) bool {
	return isManager(u) && isManager(v) && strings.EqualFold(u.Authority, v.Authority)
}

func isManager(u URN) bool {
	return u.Type == Authority && (strings.EqualFold(u.Name, "cm") || strings.EqualFold(u.Name, "am"))
}

// Lower folds ASCII only, so that no two different non-ASCII names ever meet.
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
