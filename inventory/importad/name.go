package importad

import (
	"fmt"
	"regexp"
	"strings"
)

// maxText is the length in bytes to which oneLine cuts a text.
const maxText = 500

// oneLine returns at most maxText bytes as one line. Control characters become blanks,
// and several blanks become one.
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

// validName converts a text to a name of visible ASCII; other characters become hyphens.
func validName(s string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f {
			return '-'
		}
		return c
	}, oneLine(s))
}

// severalDots matches two or more dots, which would make a name a range.
var severalDots = regexp.MustCompile(`\.\.+`)

// componentName returns validName with single dots, so that the name is never a range.
func componentName(s string) string {
	return severalDots.ReplaceAllString(validName(s), ".")
}

// usedNames records the names in use and, for each requested name, the last number that
// was appended.
type usedNames struct {
	taken map[string]bool
	next  map[string]int
}

// unique appends a number, as in base-2, if the name base is in use.
func (n *usedNames) unique(base string) string {
	if n.taken == nil {
		n.taken, n.next = map[string]bool{}, map[string]int{}
	}
	name := base
	for n.taken[name] {
		n.next[base]++
		name = fmt.Sprintf("%s-%d", base, n.next[base]+1)
	}
	n.taken[name] = true
	return name
}
