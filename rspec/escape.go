package rspec

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape returns s as ASCII that can be written as character data, and in an attribute with either kind of
// quotes. Characters that XML cannot contain become U+FFFD.
func escape(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = isPlain(s[i])
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if isPlain(s[i]) {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '"':
			b.WriteString("&quot;")
		default:
			writeReference(&b, r)
		}
		i += n
	}
	return b.String()
}

// isPlain reports whether c needs no escaping anywhere.
func isPlain(c byte) bool {
	switch c {
	case '&', '<', '>', '"', '\'':
		return false
	}
	return c >= ' ' && c < 0x7f
}

// writeReference writes r as a numeric character reference, such as &#xE9;. A character that XML 1.0 cannot
// contain becomes U+FFFD.
func writeReference(b *strings.Builder, r rune) {
	isAllowed := r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r < 0xd800 || r >= 0xe000 && r != 0xfffe && r != 0xffff
	if !isAllowed {
		r = unicode.ReplacementChar
	}
	b.WriteString("&#x")
	b.WriteString(strings.ToUpper(strconv.FormatInt(int64(r), 16)))
	b.WriteByte(';')
}
