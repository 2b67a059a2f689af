package rspec

import (
	"strings"
	"unicode/utf8"
)

// asciiXML writes a well-formed document in ASCII: references in character data
// and attributes, CDATA sections interrupted for them, blanks in comments and
// processing instructions. Names cannot be written otherwise and stay.
func asciiXML(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for s != "" {
		switch {
		case strings.HasPrefix(s, "<!--"):
			s = asciiUntil(&b, s, "-->", blank)
		case strings.HasPrefix(s, "<?"):
			s = asciiUntil(&b, s, "?>", blank)
		case strings.HasPrefix(s, "<![CDATA["):
			s = asciiUntil(&b, s, "]]>", func(b *strings.Builder, r rune) {
				b.WriteString("]]>")
				writeReference(b, r)
				b.WriteString("<![CDATA[")
			})
		case s[0] == '<':
			s = asciiTag(&b, s)
		default:
			end := strings.IndexByte(s, '<')
			if end < 0 {
				end = len(s)
			}
			asciiText(&b, s[:end], writeReference)
			s = s[end:]
		}
	}
	return b.String()
}

func blank(b *strings.Builder, _ rune) { b.WriteByte(' ') }

// asciiUntil handles s up to and with end, and returns what follows.
func asciiUntil(b *strings.Builder, s, end string, other func(*strings.Builder, rune)) string {
	n := strings.Index(s, end) + len(end)
	asciiText(b, s[:n], other)
	return s[n:]
}

// asciiTag handles a tag, in which only attribute values are rewritten.
func asciiTag(b *strings.Builder, s string) string {
	for i := 0; ; {
		n := strings.IndexAny(s[i:], `"'>`)
		b.WriteString(s[i : i+n+1])
		i += n + 1
		if s[i-1] == '>' {
			return s[i:]
		}
		end := i + strings.IndexByte(s[i:], s[i-1])
		asciiText(b, s[i:end], writeReference)
		b.WriteByte(s[end])
		i = end + 1
	}
}

func asciiText(b *strings.Builder, s string, other func(*strings.Builder, rune)) {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		other(b, r)
		i += n
	}
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
