package check

import (
	"bytes"
	"fmt"
	"slices"
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
	runes := []rune(strings.ReplaceAll(string(bytes.TrimSuffix(text, []byte("\r"))), "\t", " "))
	at := min(max(column-1, 0), len(runes))
	before, after := runes[:at], runes[at:]
	if at > excerptWidth/2 {
		before = append([]rune("…"), before[at-excerptWidth/2:]...)
	}
	if room := excerptWidth - len(before); len(after) > room {
		after = append(slices.Clone(after[:room]), '…')
	}
	shown := display.Printable(string(before))
	out := fmt.Sprintf("%6d | %s%s\n", line, shown, display.Printable(string(after)))
	if column > 0 {
		out += fmt.Sprintf("%6s | %s^\n", "", strings.Repeat(" ", utf8.RuneCountInString(shown)))
	}
	return out
}
