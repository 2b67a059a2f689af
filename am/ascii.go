package am

import (
	"bytes"
	"fmt"
	"unicode/utf16"
)

// ASCII writes the characters of a JSON text beyond ASCII by their numbers, and the
// control character DEL, for terminals obey some of them.
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
