package xmltree

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/credentials/rule"
)

// prepare checks encoding and declaration of b, and cuts what may stand in
// front of a document: the answer is the text to parse and the number of bytes
// cut. The text is b's own bytes unless they declare XML 1.1.
func prepare(b []byte) (text []byte, cut int, err error) {
	switch {
	case bytes.HasPrefix(b, []byte("\xfe\xff")) || bytes.HasPrefix(b, []byte("\xff\xfe")):
		return nil, 0, &SyntaxError{Msg: "the text is UTF-16; only UTF-8 is read"}
	case bytes.IndexByte(b, 0) >= 0:
		return nil, 0, syntaxErrorAt(b, bytes.IndexByte(b, 0), "a NUL byte is not allowed")
	case !utf8.Valid(b):
		return nil, 0, syntaxErrorAt(b, invalidAt(b), "the text is not UTF-8")
	}
	text = bytes.TrimLeft(bytes.TrimPrefix(b, []byte(byteOrderMark)), " \t\r\n")
	if len(text) == 0 {
		return nil, 0, &SyntaxError{Msg: "the document is empty"}
	}
	cut = len(b) - len(text)
	end := bytes.Index(text, []byte("?>"))
	if !bytes.HasPrefix(text, []byte("<?xml")) || len(text) < 6 || text[5] > ' ' || end < 0 {
		return text, cut, nil
	}
	decl := text[:end]
	if from, to := pseudoAttr(decl, "encoding"); from > 0 {
		switch enc := string(decl[from:to]); strings.ToLower(enc) {
		case "utf-8", "utf8", "us-ascii", "ascii":
		default:
			if rule.Encoding.Broken(true) {
				e := syntaxErrorAt(b, cut+from, fmt.Sprintf("the text declares the encoding %.40q; only UTF-8 is read", enc))
				e.Rule = rule.Encoding
				return nil, 0, e
			}
		}
	}
	if from, to := pseudoAttr(decl, "version"); from > 0 && string(decl[from:to]) == "1.1" {
		text = bytes.Clone(text)
		text[to-1] = '0'
	}
	return text, cut, nil
}

// pseudoAttr is where the value of a pseudo-attribute of an XML declaration
// begins and ends; 0, 0 without one.
func pseudoAttr(decl []byte, name string) (from, to int) {
	for at := len("<?xml"); ; {
		i := bytes.Index(decl[at:], []byte(name))
		if i < 0 {
			return 0, 0
		}
		before := decl[at+i-1]
		at += i + len(name)
		rest := bytes.TrimLeft(decl[at:], " \t\r\n")
		if before > ' ' || len(rest) == 0 || rest[0] != '=' {
			continue
		}
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
		if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
			return 0, 0
		}
		n := bytes.IndexByte(rest[1:], rest[0])
		if n < 0 {
			return 0, 0
		}
		from = len(decl) - len(rest) + 1
		return from, from + n
	}
}

func syntaxErrorAt(b []byte, offset int, msg string) *SyntaxError {
	p := placeOf(b, offset)
	return &SyntaxError{Line: p.line, Column: p.column, Msg: msg}
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}
