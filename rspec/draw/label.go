package draw

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a document's text safe to show in one line. Control and formatting characters
// become U+FFFD, also those that change the direction of writing. White space becomes one
// blank. A character keeps at most two combining marks. A text of more than limit characters
// is cut.
func clean(s string, limit int) string {
	var b strings.Builder
	count, marks, blank := 0, 0, false
	for _, r := range s {
		if unicode.IsSpace(r) {
			blank = count > 0
			continue
		}
		if unicode.Is(unicode.M, r) {
			if marks++; marks > 2 {
				continue
			}
		} else {
			marks = 0
			if !unicode.IsPrint(r) {
				r = unicode.ReplacementChar
			}
		}
		if count >= limit {
			b.WriteRune('…')
			break
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

// maxText is in characters.
const maxText = 200

func cleaned(s string) string { return clean(s, maxText) }

// elide cuts out the middle of a cleaned text, because names usually differ at their ends. The
// result measures at most room.
func elide(s string, room float64, measure func(string) float64) string {
	if measure(s) <= room {
		return s
	}
	runes := []rune(s)
	for keep := len(runes) - 1; keep > 1; keep-- {
		head := (keep*3 + 3) / 5
		short := string(runes[:head]) + "…" + string(runes[len(runes)-(keep-head):])
		if measure(short) <= room {
			return short
		}
	}
	return "…"
}

// advance has the width of each ASCII character from the blank on, in hundredths of the font
// size. The width is the largest among common sans-serif fonts.
var advance = [...]uint8{
	32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56,
	102, 69, 69, 73, 78, 67, 62, 78, 76, 30, 50, 67, 56, 87, 75, 79, 67, 79, 73, 67, 62, 74, 69, 99, 69, 67, 69, 40, 34, 40, 84, 56,
	50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
}

type font struct {
	size float64
	bold bool
}

// width returns an estimate of the width of a text, which tends to be too large.
func (f font) width(s string) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case r >= ' ' && int(r-' ') < len(advance):
			w += float64(advance[r-' '])
		case r < utf8.RuneSelf || unicode.Is(unicode.M, r):
		case columnsOf(r) == 2:
			w += 105
		default:
			w += 84
		}
	}
	if f.bold {
		w *= 1.13
	}
	return w * f.size / 100
}

func (f font) height() float64 { return f.size * 1.3 }

// columns returns the width of a cleaned text in a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// columnsOf returns the width of a character in a terminal: 0, 1 or 2.
func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(unicode.M, r):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x2e80 && r <= 0x303e, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}
