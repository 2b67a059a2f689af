package importad

import (
	"fmt"
	"regexp"
	"strings"
)

// maxText is the number of bytes kept of a text.
const maxText = 500

// oneLine returns a text in one line without control characters.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxText)], "")
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == '\u2028' || c == '\u2029' || c == '\ufeff' {
			return ' '
		}
		return c
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// validName converts a text to a name: visible ASCII without blanks.
func validName(s string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f {
			return '-'
		}
		return c
	}, oneLine(s))
}

var severalDots = regexp.MustCompile(`\.\.+`)

// componentName is tidyName, but never returns a range.
func componentName(s string) string {
	return severalDots.ReplaceAllString(validName(s), ".")
}

// usedNames are the names in use.
type usedNames struct {
	taken map[string]bool
	next  map[string]int
}

// unique returns an unused name: the one wanted, or that with a number.
func (n *usedNames) unique(want string) string {
	if n.taken == nil {
		n.taken, n.next = map[string]bool{}, map[string]int{}
	}
	name := want
	for n.taken[name] {
		n.next[want]++
		name = fmt.Sprintf("%s-%d", want, n.next[want]+1)
	}
	n.taken[name] = true
	return name
}
