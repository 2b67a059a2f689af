package xmltree

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"patchbay/credentials/rule"
)

// checkEncoding refuses invalid encodings and XML declarations. It removes a byte order mark
// and white space before the document. The result cut is the number of removed bytes. The text
// shares the bytes of b, unless the declaration has version 1.1.
func checkEncoding(b []byte) (text []byte, cut int, err error) {
	switch {
	case bytes.HasPrefix(b, []byte("\xfe\xff")) || bytes.HasPrefix(b, []byte("\xff\xfe")):
		return nil, 0, &SyntaxError{Msg: "the text is UTF-16; only UTF-8 is read"}
	case bytes.IndexByte(b, 0) >= 0:
		return nil, 0, syntaxErrorAt(b, bytes.IndexByte(b, 0), "a NUL byte is not allowed")
	case !utf8.Valid(b):
		return nil, 0, syntaxErrorAt(b, invalidUTF8Offset(b), "the text is not UTF-8")
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
	if at := encodingAttr.FindSubmatchIndex(decl); at != nil {
		switch enc := string(decl[at[2]:at[3]]); strings.ToLower(enc) {
		case "utf-8", "utf8", "us-ascii", "ascii":
		default:
			e := syntaxErrorAt(b, cut+at[2], fmt.Sprintf("the text declares the encoding %.40q; only UTF-8 is read", enc))
			e.Rule = rule.Encoding
			return nil, 0, e
		}
	}
	if at := versionAttr.FindSubmatchIndex(decl); at != nil && string(decl[at[2]:at[3]]) == "1.1" {
		text = bytes.Clone(text)
		text[at[3]-1] = '0'
	}
	return text, cut, nil
}

var (
	encodingAttr = regexp.MustCompile(`[\x00-\x20]encoding[ \t\r\n]*=[ \t\r\n]*["']([^"']*)["']`)
	versionAttr  = regexp.MustCompile(`[\x00-\x20]version[ \t\r\n]*=[ \t\r\n]*["']([^"']*)["']`)
)

func syntaxErrorAt(b []byte, offset int, msg string) *SyntaxError {
	p := placeOf(b, offset)
	return &SyntaxError{Line: p.line, Column: p.column, Msg: msg}
}

func invalidUTF8Offset(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}
