package check

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/am/display"
)

// excerpts shows lines of a text with a mark below a column.
type excerpts struct {
	text []byte
	line int // of text[0]
}

func newExcerpts(text []byte) *excerpts {
	return &excerpts{bytes.TrimPrefix(text, []byte("\ufeff")), 1}
}

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// at shows one line, indented and numbered; below it a mark if column is not 0.
// Lines must be asked for in ascending order. The answer is empty for a line
// that is not there.
func (x *excerpts) at(line, column int) string {
	for ; x.line < line; x.line++ {
		end := bytes.IndexByte(x.text, '\n')
		if end < 0 {
			return ""
		}
		x.text = x.text[end+1:]
	}
	if line < 1 || line > x.line {
		return ""
	}
	text, _, _ := bytes.Cut(x.text, []byte("\n"))
	before, after := split(bytes.TrimSuffix(text, []byte("\r")), column)
	if n := utf8.RuneCount(before); n > excerptWidth/2 {
		before = append([]byte("…"), lastRunes(before, excerptWidth/2)...)
	}
	room := excerptWidth - utf8.RuneCount(before)
	if rest := firstRunes(after, room); len(rest) < len(after) {
		after = append(bytes.Clone(rest), "…"...)
	}
	shown := func(b []byte) string { return display.Printable(strings.ReplaceAll(string(b), "\t", " ")) }
	out := fmt.Sprintf("%6d | %s%s\n", line, shown(before), shown(after))
	if column > 0 {
		out += fmt.Sprintf("%6s | %s^\n", "", strings.Repeat(" ", utf8.RuneCountInString(shown(before))))
	}
	return out
}

// split cuts a line in front of a column; column 0 is in front of all.
func split(line []byte, column int) (before, after []byte) {
	before = firstRunes(line, column-1)
	return before, line[len(before):]
}

func firstRunes(b []byte, n int) []byte {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at]
}

func lastRunes(b []byte, n int) []byte {
	at := len(b)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRune(b[:at])
		at -= size
	}
	return b[at:]
}
