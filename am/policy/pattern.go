package policy

import (
	"errors"
	"fmt"
	"strings"

	"patchbay/am/urn"
)

// pattern fits names of users, or of projects. Authorities are compared by their
// components, the parts between colons: a star stands for any text within one
// component, and ** as the last one for any number of further components, also
// none. In the name of a user a star stands for any text. Case does not matter.
type pattern struct {
	text   string   // as written
	labels []string // of the authority, folded; without a last **
	deeper bool     // the last one was **
	name   string   // of the user, folded; "" for projects
}

const prefix = "urn:publicid:idn+"

// maxPattern is the length of the longest pattern in bytes; no URN is longer.
const maxPattern = 255

// parseUsers reads a pattern for users: AUTHORITY+user+NAME, or the whole URN.
// The error says what is wrong and how to write it.
func parseUsers(text string) (pattern, error) {
	authority, rest, ok := strings.Cut(withoutPrefix(text), "+")
	kind, name, named := strings.Cut(rest, "+")
	switch {
	case !ok || !named:
		return pattern{}, fmt.Errorf("%q is no pattern for users; write AUTHORITY+user+NAME, such as example.org:**+user+*", text)
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

// parseProjects reads a pattern for the authorities of slices, such as
// example.org:course-*. The error says what is wrong and how to write it.
func parseProjects(text string) (pattern, error) {
	p := pattern{text: text}
	authority, rest, more := strings.Cut(withoutPrefix(text), "+")
	switch {
	case more:
		return p, fmt.Errorf("%q is more than the authority of a project; drop %q", text, "+"+rest)
	case len(text) > maxPattern:
		return p, fmt.Errorf("a pattern is longer than %d bytes, and so than any name", maxPattern)
	}
	p.labels = strings.Split(lower(authority), ":")
	if last := len(p.labels) - 1; p.labels[last] == "**" {
		p.labels, p.deeper = p.labels[:last], true
	}
	for _, l := range p.labels {
		if err := checkLabel(l); err != nil {
			return p, fmt.Errorf("%q fits nobody: %w", text, err)
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

// String is the pattern as it was written.
func (p *pattern) String() string { return p.text }

// nameOf is an authority, and the name of its user, as a pattern that only they fit.
func nameOf(authority, name string) pattern {
	return pattern{labels: strings.Split(lower(authority), ":"), name: lower(name)}
}

// covers tells whether every name that q fits is fitted by p. A star in q is read
// as a character, which only a star in p fits: so what is told is true, and at
// worst something is not told.
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

// meets tells whether a name of authority, or of one below it, may fit.
func (p *pattern) meets(authority string) bool {
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

// wide tells of a star at the end of the first component: it fits what others
// own, too, as example.* fits example.net.evil.
func (p *pattern) wide() bool {
	return len(p.labels) > 0 && p.labels[0] != "*" && strings.HasSuffix(p.labels[0], "*")
}

// glob tells whether text is like pattern, in which stars stand for any text;
// both are folded. It goes back to the last star only, so it takes at most the
// product of the two lengths.
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

// lower folds names as they are compared.
var lower = urn.Lower
