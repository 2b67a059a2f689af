package xmlrpc

import (
	"bytes"
	"strings"
)

// latin1Name is the name of ISO-8859-1 in an XML declaration, in lower case. Apache XML-RPC
// 1.1 and PHP libraries declare it for calls that are mostly plain ASCII.
const latin1Name = "iso-8859-1"

// encodingOf returns the character set that an XML declaration names. named is false if it names none.
func encodingOf(inst string) (charset string, named bool) {
	_, after, named := strings.Cut(inst, "encoding")
	after = trim(strings.TrimPrefix(trim(after), "="))
	if after != "" {
		if end := strings.IndexByte(after[1:], after[0]); end >= 0 {
			charset = after[1 : 1+end]
		}
	}
	return charset, named
}

// declaresLatin1 reports whether a document begins with a declaration that names
// ISO-8859-1. It returns false for a document with a byte order mark, which means UTF-8.
func declaresLatin1(b []byte) bool {
	b, ok := bytes.CutPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("<?xml"))
	if !ok {
		return false
	}
	inst, _, ok := bytes.Cut(b[:min(len(b), maxTag)], []byte("?>"))
	if !ok {
		return false
	}
	set, _ := encodingOf(string(inst))
	return strings.ToLower(set) == latin1Name
}

// firstControl returns the index of the first byte that is NUL or one of the controls from 0x80
// to 0x9F, or -1. Texts in ISO-8859-1 do not contain these bytes. Such a byte shows that the
// text is in windows-1252 or UTF-8.
func firstControl(b []byte) int {
	for i, c := range b {
		if c == 0 || c >= 0x80 && c <= 0x9F {
			return i
		}
	}
	return -1
}

func fromLatin1(b []byte) []byte {
	more := 0
	for _, c := range b {
		more += int(c >> 7)
	}
	if more == 0 {
		return b
	}
	out := make([]byte, 0, len(b)+more)
	for _, c := range b {
		if c < 0x80 {
			out = append(out, c)
		} else {
			out = append(out, 0xC0|c>>6, 0x80|c&0x3F)
		}
	}
	return out
}
