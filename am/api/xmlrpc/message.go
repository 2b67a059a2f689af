package xmlrpc

import (
	"fmt"
	"strconv"
	"strings"
)

// quote returns a client's text in quotes for a message: one short line of ASCII.
func quote(s string) string {
	s, dots := cut(s, 40)
	return strconv.QuoteToASCII(s) + dots
}

// plain is quote without the quotes and with a higher limit, for names of elements and for
// messages of the tokenizer.
func plain(s string) string {
	s, dots := cut(s, 120)
	s = strconv.QuoteToASCII(s)
	return s[1:len(s)-1] + dots
}

func cut(s string, limit int) (head, dots string) {
	if len(s) <= limit {
		return s, ""
	}
	return strings.ToValidUTF8(s[:limit], ""), "..."
}

func trim(s string) string { return strings.Trim(s, " \t\r\n") }

// step is one part of the path to a value, for messages: a member's name, or the number
// of an item or parameter.
type step struct {
	name string
	kind string
	n    int
}

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
