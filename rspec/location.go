package rspec

import (
	"strconv"
	"strings"
)

// pair is one entry of xsi:schemaLocation.
type pair struct{ space, schema string }

// word is one word of an attribute with a list of words. raw[from:to] is the word as written,
// and text is the word with its references resolved. White space around a word may also be
// references.
type word struct {
	from, to int
	text     string
}

// wordsOf returns the words of raw, the text of an attribute between its quotes. White space may be written as
// references.
func wordsOf(raw string) []word {
	var list []word
	var text strings.Builder
	from := -1
	endWord := func(at int) {
		if from >= 0 {
			list = append(list, word{from, at, text.String()})
			from = -1
			text.Reset()
		}
	}
	for i := 0; i < len(raw); {
		s, n := raw[i:i+1], 1
		if raw[i] == '&' {
			n = strings.IndexByte(raw[i:], ';') + 1
			s = dereference(raw[i : i+n])
		}
		if len(s) == 1 && isSpace(s[0]) {
			endWord(i)
		} else {
			if from < 0 {
				from = i
			}
			text.WriteString(s)
		}
		i += n
	}
	endWord(len(raw))
	return list
}

// dereference returns the character of a reference, which must be from a well-formed document.
func dereference(ref string) string {
	switch ref {
	case "&lt;":
		return "<"
	case "&gt;":
		return ">"
	case "&amp;":
		return "&"
	case "&quot;":
		return `"`
	case "&apos;":
		return "'"
	}
	digits, base := strings.Trim(ref, "&#;"), 10
	if digits[0] == 'x' {
		digits, base = digits[1:], 16
	}
	r, _ := strconv.ParseInt(digits, base, 32)
	return string(rune(r))
}

func pairsOf(raw string) []pair {
	var list []pair
	words := wordsOf(raw)
	for i := 0; i+1 < len(words); i += 2 {
		list = append(list, pair{words[i].text, words[i+1].text})
	}
	return list
}

// manifestLocations converts the raw value of a request's schema locations to that of a
// manifest. The address of the RSpec schema becomes ManifestSchema; other words and the white
// space remain. Additional pairs are appended if raw does not have their namespaces.
func manifestLocations(raw string, additional []pair) string {
	var b strings.Builder
	has := map[string]bool{}
	at := 0
	words := wordsOf(raw)
	for i, w := range words {
		text := w.text
		isSchema := i%2 == 1 && words[i-1].text == Namespace
		if isSchema || text == RequestSchema || text == AdSchema {
			text = ManifestSchema
		}
		has[text] = true
		b.WriteString(raw[at:w.from])
		if text == w.text {
			b.WriteString(raw[w.from:w.to])
		} else {
			b.WriteString(text)
		}
		at = w.to
	}
	appendPair := func(space, schema string) {
		has[space] = true
		b.WriteString(" " + escape(space) + " " + escape(schema))
	}
	if !has[ManifestSchema] {
		appendPair(Namespace, ManifestSchema)
	}
	for _, p := range additional {
		if !has[p.space] {
			appendPair(p.space, p.schema)
		}
	}
	b.WriteString(raw[at:])
	return b.String()
}
