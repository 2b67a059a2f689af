package rspec

import (
	"strings"
	"unicode/utf8"
)

// asciiXML returns a well-formed document without characters beyond ASCII, except in names. In character data
// and attributes it writes references. CDATA sections cannot contain references, so they are interrupted. In
// comments and processing instructions it writes blanks. Names remain unchanged, because they cannot
// contain references either.
func asciiXML(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for s != "" {
		switch {
		case strings.HasPrefix(s, "<!--"):
			s = asciiUntil(&b, s, "-->", writeBlank)
		case strings.HasPrefix(s, "<?"):
			target := 2 + strings.IndexAny(s[2:], " \t\r\n?")
			b.WriteString(s[:target])
			s = asciiUntil(&b, s[target:], "?>", writeBlank)
		case strings.HasPrefix(s, "<![CDATA["):
			s = asciiCDATA(&b, s)
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

func writeBlank(b *strings.Builder, _ rune) { b.WriteByte(' ') }

// asciiUntil converts s up to and including the text end, and returns the rest of s.
func asciiUntil(b *strings.Builder, s, end string, replace func(*strings.Builder, rune)) string {
	n := strings.Index(s, end) + len(end)
	asciiText(b, s[:n], replace)
	return s[n:]
}

// asciiCDATA converts the CDATA section at the start of s and returns the rest of s. It ends
// the section before each reference and begins a new one after it.
func asciiCDATA(b *strings.Builder, s string) string {
	n := strings.Index(s, "]]>") + len("]]>")
	for i := 0; i < n; {
		plain := i
		for i < n && s[i] < utf8.RuneSelf {
			i++
		}
		b.WriteString(s[plain:i])
		if i == n {
			break
		}
		b.WriteString("]]>")
		for s[i] >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			writeReference(b, r)
			i += size
		}
		b.WriteString("<![CDATA[")
	}
	return s[n:]
}

// asciiTag converts the attribute values of the tag at the start of s, and returns the rest.
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

func asciiText(b *strings.Builder, s string, replace func(*strings.Builder, rune)) {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		replace(b, r)
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
