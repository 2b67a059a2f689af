package am

import (
	"bytes"
	"fmt"
	"unicode/utf16"
)

// ASCII replaces each non-ASCII character of a JSON text, and DEL, by its \u escape,
// because terminals interpret some of them as control characters.
func ASCII(text []byte) []byte {
	beyond := func(r rune) bool { return r >= 0x7f }
	if bytes.IndexFunc(text, beyond) < 0 {
		return text
	}
	out := make([]byte, 0, 2*len(text))
	for _, r := range string(text) {
		if !beyond(r) {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", unit)
		}
	}
	return out
}
