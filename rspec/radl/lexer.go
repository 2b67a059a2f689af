package radl

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	endToken    tokenKind = iota
	wordToken             // an id, a feature name or a keyword
	numberToken           // digits with an optional fraction
	textToken             // in quotes; the text is without them
	opToken               // a comparison
	markToken             // one of ( ) [ ] ,
	paramToken            // @input.NAME@; the text is NAME
	recipeToken           // the lines between @begin and @end
	wrongToken            // the text is the mistake
)

type token struct {
	Place
	kind tokenKind
	text string
	// bodyLine is the line of the first line of a recipe.
	bodyLine int
}

// String describes the token for messages.
func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end of the document"
	case textToken:
		return fmt.Sprintf("the text %.40q", t.text)
	case paramToken:
		return "@input." + t.text + "@"
	case recipeToken:
		return "a recipe"
	case wrongToken:
		return t.text
	}
	return fmt.Sprintf("%.40q", t.text)
}

// is reports whether the token is this word, mark or comparison.
func (t token) is(text string) bool {
	return (t.kind == wordToken || t.kind == markToken || t.kind == opToken) && t.text == text
}

type lexer struct {
	text []byte
	at   int
	Place
	// atLineStart means that only blanks precede at in its line.
	atLineStart bool
}

func newLexer(text []byte) *lexer {
	return &lexer{text: text, Place: Place{1, 1}, atLineStart: true}
}

// skip goes n bytes on.
func (l *lexer) skip(n int) {
	for end := min(l.at+n, len(l.text)); l.at < end; {
		r, size := utf8.DecodeRune(l.text[l.at:])
		l.at += size
		if l.Column++; r == '\n' {
			l.Line++
			l.Column, l.atLineStart = 1, true
		} else if r != ' ' && r != '\t' && r != '\r' {
			l.atLineStart = false
		}
	}
}

// skipBlanks skips blanks and comments.
func (l *lexer) skipBlanks() {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			l.skip(1)
		case c == '#':
			l.skip(lineLength(l.text[l.at:]))
		default:
			return
		}
	}
}

// lineLength returns the length of the first line without its end.
func lineLength(text []byte) int {
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

func (l *lexer) next() token {
	l.skipBlanks()
	t := token{Place: l.Place}
	rest := l.text[l.at:]
	if len(rest) == 0 {
		return t
	}
	take := func(kind tokenKind, n int) token {
		t.kind, t.text = kind, string(rest[:n])
		l.skip(n)
		return t
	}
	switch c := rest[0]; {
	case strings.IndexByte("()[],", c) >= 0:
		return take(markToken, 1)
	case c == '\'' || c == '"':
		return l.quotedText(t, c)
	case c == '@' && l.atLineStart && bytes.HasPrefix(rest, []byte("@begin")):
		return l.recipe(t)
	case c == '@':
		if name, n := parameterAt(rest); n > 0 {
			l.skip(n)
			t.kind, t.text = paramToken, name
			return t
		}
	case strings.IndexByte("<>=", c) >= 0:
		if t = take(opToken, opLength(rest)); t.text == "=>" {
			t.text = AtLeast
		}
		return t
	case isDigit(c):
		return take(numberToken, numberLength(rest))
	case isLetter(c) || c == '_' || c == '.':
		return take(wordToken, countBytes(rest, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '-' }))
	}
	r, n := utf8.DecodeRune(rest)
	l.skip(n)
	t.kind, t.text = wrongToken, fmt.Sprintf("the character %q", r)
	return t
}

// opLength returns the length of the comparison that the text begins with.
func opLength(text []byte) int {
	for _, op := range []string{AtLeast, AtMost, "=>"} {
		if bytes.HasPrefix(text, []byte(op)) {
			return len(op)
		}
	}
	return 1
}

// numberLength returns the length of the number that the text begins with.
func numberLength(text []byte) int {
	n := countBytes(text, isDigit)
	if n+1 < len(text) && text[n] == '.' && isDigit(text[n+1]) {
		n += 1 + countBytes(text[n+1:], isDigit)
	}
	return n
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func countBytes(text []byte, is func(byte) bool) (n int) {
	for n < len(text) && is(text[n]) {
		n++
	}
	return n
}

// quotedText reads a text that begins with the quote. A backslash before the quote makes it part of
// the text; other backslashes are kept.
func (l *lexer) quotedText(t token, quote byte) token {
	rest := l.text[l.at+1:]
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			l.skip(i + 2)
			t.kind, t.text = textToken, b.String()
			return t
		case c == '\\' && i+1 < len(rest) && rest[i+1] == quote:
			b.WriteByte(quote)
			i++
		default:
			b.WriteByte(c)
		}
	}
	l.skip(len(l.text))
	t.kind, t.text = wrongToken, fmt.Sprintf("a text without its closing %c", quote)
	return t
}

// recipe reads the lines between @begin and a line that begins with @end.
func (l *lexer) recipe(t token) token {
	first := l.text[l.at : l.at+lineLength(l.text[l.at:])]
	if more := bytes.TrimSpace(first[len("@begin"):]); len(more) > 0 {
		l.skip(len(first))
		t.kind, t.text = wrongToken, fmt.Sprintf("%.40q after @begin", more)
		return t
	}
	l.skip(len(first) + 1)
	t.bodyLine = l.Line
	begin := l.at
	for l.at < len(l.text) {
		line := l.text[l.at : l.at+lineLength(l.text[l.at:])]
		if blanks := len(line) - len(bytes.TrimLeft(line, " \t")); bytes.HasPrefix(line[blanks:], []byte("@end")) {
			t.kind, t.text = recipeToken, string(l.text[begin:l.at])
			l.skip(blanks + len("@end"))
			return t
		}
		l.skip(len(line) + 1)
	}
	t.kind, t.text = wrongToken, "a recipe without @end"
	return t
}
