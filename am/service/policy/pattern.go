package policy

import (
	"errors"
	"fmt"
	"strings"

	"patchbay/am/urn"
)

// pattern matches names of users, or of projects. Authorities are compared by their
// components, the parts between colons. A star matches any text within one component;
// ** as the last component matches any number of further components, including none. In
// the name of a user a star matches any text. Case is ignored.
type pattern struct {
	text   string   // as written
	labels []string // of the authority, folded; without a last **
	deeper bool     // the last part was **
	name   string   // of the user, folded; "" for projects
}

const prefix = "urn:publicid:idn+"

// maxPattern is in bytes; no URN is longer.
const maxPattern = 255

// parseUsers parses AUTHORITY+user+NAME, or a whole URN.
func parseUsers(text string) (pattern, error) {
	authority, rest, ok := strings.Cut(withoutPrefix(text), "+")
	kind, name, named := strings.Cut(rest, "+")
	switch {
	case !ok || !named:
		return pattern{}, fmt.Errorf("%q is not a pattern for users; write AUTHORITY+user+NAME, such as example.org:**+user+*", text)
	case !strings.EqualFold(kind, "user"):
		return pattern{}, fmt.Errorf("%q is for names of type %q; rules are for users: write AUTHORITY+user+NAME", text, kind)
	case name == "":
		return pattern{}, fmt.Errorf("%q has no name; a star stands for any", text)
	}
	for i := 0; i < len(name); i++ {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return pattern{}, fmt.Errorf("%q has a blank, or a character beyond ASCII, which no URN has", text)
		}
	}
	p, err := parseProjects(authority)
	if err != nil {
		return pattern{}, err
	}
	p.text, p.name = text, lower(name)
	return p, nil
}

// parseProjects parses an authority of slices, such as example.org:course-*.
func parseProjects(text string) (pattern, error) {
	p := pattern{text: text}
	authority, rest, more := strings.Cut(withoutPrefix(text), "+")
	switch {
	case more:
		return p, fmt.Errorf("%q is more than the authority of a project; drop %q", text, "+"+rest)
	case len(text) > maxPattern:
		return p, fmt.Errorf("a pattern is longer than %d bytes, so it matches no name", maxPattern)
	}
	p.labels = strings.Split(lower(authority), ":")
	if last := len(p.labels) - 1; p.labels[last] == "**" {
		p.labels, p.deeper = p.labels[:last], true
	}
	for _, l := range p.labels {
		if err := checkLabel(l); err != nil {
			return p, fmt.Errorf("%q matches no user: %w", text, err)
		}
	}
	return p, nil
}

func withoutPrefix(s string) string {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):]
	}
	return s
}

func checkLabel(l string) error {
	switch {
	case l == "":
		return errors.New("it has an empty part between colons")
	case strings.Contains(l, "**"):
		return errors.New("** stands only for all further parts, at the end; write * for any text in one part")
	case l[0] == '.' || l[0] == '-' || l[0] == '_':
		return fmt.Errorf("no part of an authority begins with %q", l[:1])
	}
	for i := 0; i < len(l); i++ {
		if c := l[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("*.-_", c) >= 0) {
			return fmt.Errorf("no authority has the character %q", rune(c))
		}
	}
	return nil
}

// String returns the pattern as it was written.
func (p *pattern) String() string { return p.text }

func nameOf(authority, name string) pattern {
	return pattern{labels: strings.Split(lower(authority), ":"), name: lower(name)}
}

// covers reports whether p matches every name that q matches. It treats a star in q as a
// character that only a star in p matches. So true is always correct, but false may be wrong.
func (p *pattern) covers(q *pattern) bool {
	if len(q.labels) < len(p.labels) || !p.deeper && (q.deeper || len(q.labels) > len(p.labels)) {
		return false
	}
	for i, l := range p.labels {
		if !glob(l, q.labels[i]) {
			return false
		}
	}
	return p.name == "" || glob(p.name, q.name)
}

// mayMatch reports whether p can match a name of the authority or of a sub-authority.
func (p *pattern) mayMatch(authority string) bool {
	labels := strings.Split(lower(authority), ":")
	for i, l := range p.labels {
		if i == len(labels) {
			return true
		}
		if !glob(l, labels[i]) {
			return false
		}
	}
	return p.deeper || len(labels) <= len(p.labels)
}

// isTooWide reports whether the first component ends in a star, which also matches
// names of other owners: example.* matches example.net.evil.
func (p *pattern) isTooWide() bool {
	return len(p.labels) > 0 && p.labels[0] != "*" && strings.HasSuffix(p.labels[0], "*")
}

// glob reports whether text matches pattern, in which stars match any text. Both must be folded.
// glob backtracks only to the last star. So its time is at most proportional to the product of
// the lengths.
func glob(pattern, text string) bool {
	if strings.IndexByte(pattern, '*') < 0 {
		return pattern == text
	}
	p, t := 0, 0
	star, from := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

var lower = urn.Lower
