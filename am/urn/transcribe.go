package urn

import "strings"

// Transcribe converts any text to a URN's name or authority (RFC 3151). It removes blanks
// at both ends. A run of inner blanks becomes one plus sign, // becomes a colon, and ::
// becomes a semicolon. Reserved, control and non-ASCII characters are percent-encoded.
func Transcribe(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		two := s[i:min(i+2, len(s))]
		switch {
		case two == "//":
			b.WriteByte(':')
			i++
		case two == "::":
			b.WriteByte(';')
			i++
		case s[i] == ' ':
			b.WriteByte('+')
		case strings.IndexByte("+:/;'?#%", s[i]) >= 0 || s[i] < ' ' || s[i] >= 0x7f:
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[s[i]>>4], hex[s[i]&15]})
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
