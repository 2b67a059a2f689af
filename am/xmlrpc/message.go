package xmlrpc

import (
	"fmt"
	"strconv"
	"strings"
)

// quote makes foreign text safe for a message: ASCII, one line, short.
func quote(s string) string {
	s, dots := cut(s, 40)
	return strconv.QuoteToASCII(s) + dots
}

// plain is quote without the quotes, for names of elements and the like.
func plain(s string) string {
	s, dots := cut(s, 120)
	s = strconv.QuoteToASCII(s)
	return s[1:len(s)-1] + dots
}

// cut returns at most most bytes of s, and dots if s is longer.
func cut(s string, most int) (head, dots string) {
	if len(s) <= most {
		return s, ""
	}
	return strings.ToValidUTF8(s[:most], ""), "..."
}

// trim removes the white space of XML at both ends.
func trim(s string) string { return strings.Trim(s, " \t\r\n") }

// step is one part of the path to a value, for messages: a member's name, or the number
// of an item or parameter.
type step struct {
	name string
	kind string
	n    int
}

// pathText returns a path as text for a message.
func pathText(path []step) string {
	var b strings.Builder
	for _, s := range path {
		if s.kind == "" {
			b.WriteString(quote(s.name))
		} else {
			fmt.Fprintf(&b, "%s %d", s.kind, s.n)
		}
		b.WriteString(": ")
	}
	return b.String()
}
