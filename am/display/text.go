package display

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Printable replaces the characters that a terminal could interpret, except line breaks
// and tabs, because texts of an aggregate are not trusted.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Cut returns s, or its first bytes, at most most of them, and an ellipsis. It cuts no rune.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Count returns a number with its noun, which is in the plural unless n is 1.
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ss"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Time formats a time in UTC (RFC 3339).
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Place formats a place in a file as file:line, or as the file alone if line is 0.
func Place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// Duration formats a duration: 30d, 23h50m, 10m, 1.5s.
func Duration(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size formats a number of bytes in bytes, KiB or MiB, rounded down.
func Size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Line returns an untrusted text like Printable, with blanks for line breaks and tabs.
func Line(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(s))
}

// ShellLine joins words to a command line and quotes them where the shell requires it.
func ShellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// ShellWord quotes s for a shell; it returns s unchanged if no quotes are needed.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:=+,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
