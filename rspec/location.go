package rspec

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// pair is a namespace and where its schema is published.
type pair struct{ space, schema string }

// word is a word of a list: where it stands, and what it says.
type word struct {
	from, to int
	text     string
}

// wordsOf are the words of an attribute as it is written, be it in references.
func wordsOf(raw string) []word {
	var list []word
	var text []rune
	from := 0
	for i := 0; ; {
		r, n := ' ', 0
		if i < len(raw) {
			r, n = character(raw[i:])
		}
		switch r {
		case ' ', '\t', '\r', '\n':
			if len(text) > 0 {
				list = append(list, word{from, i, string(text)})
			}
			text, from = nil, i+n
		default:
			text = append(text, r)
		}
		if n == 0 {
			return list
		}
		i += n
	}
}

// character reads the first character of an attribute's text, and how many
// bytes it takes.
func character(raw string) (rune, int) {
	end := strings.IndexByte(raw, ';')
	if raw[0] != '&' || end < 0 {
		return utf8.DecodeRuneInString(raw)
	}
	switch name := raw[1:end]; name {
	case "lt":
		return '<', end + 1
	case "gt":
		return '>', end + 1
	case "amp":
		return '&', end + 1
	case "quot":
		return '"', end + 1
	case "apos":
		return '\'', end + 1
	default:
		digits, base := strings.TrimPrefix(name, "#"), 10
		if hex, ok := strings.CutPrefix(digits, "x"); ok {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || n > utf8.MaxRune {
			return utf8.RuneError, end + 1 // cannot be: the document is well-formed
		}
		return rune(n), end + 1
	}
}

// pairsOf are the pairs of an attribute as it is written.
func pairsOf(raw string) []pair {
	var list []pair
	words := wordsOf(raw)
	for i := 0; i+1 < len(words); i += 2 {
		list = append(list, pair{words[i].text, words[i+1].text})
	}
	return list
}

// manifestLocations turns a request's schema locations into a manifest's: the
// RSpec schema is the manifest's, other words stay, and pairs of namespaces that
// are not there yet are added. It works on the text as written, whose white
// space stays.
func manifestLocations(raw string, add []pair) string {
	var b strings.Builder
	there := map[string]bool{}
	end, before := 0, ""
	for i, w := range wordsOf(raw) {
		is := w.text
		if i%2 == 1 && before == Namespace || is == RequestSchema || is == AdSchema {
			is = ManifestSchema
		}
		b.WriteString(raw[end:w.from])
		if is == w.text {
			b.WriteString(raw[w.from:w.to])
		} else {
			b.WriteString(is)
		}
		end, before = w.to, w.text
		there[is] = true
	}
	if !there[ManifestSchema] {
		b.WriteString(" " + Namespace + " " + ManifestSchema)
		there[Namespace] = true
	}
	for _, p := range add {
		if !there[p.space] {
			b.WriteString(" " + escape(p.space) + " " + escape(p.schema))
			there[p.space] = true
		}
	}
	b.WriteString(raw[end:])
	return b.String()
}
