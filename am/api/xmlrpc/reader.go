package xmlrpc

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reader walks the raw tokens of a document. It skips comments and processing
// instructions. The function that has opened an element checks the element's end tag.
// After an error no method reads any more.
type reader struct {
	d      *xml.Decoder
	in     *input
	lim    Limits
	values int
	begun  bool   // some content was read, so that no XML declaration may follow
	latin1 bool   // the document was in ISO-8859-1 and has been converted to UTF-8
	path   []step // the current position, for messages
	err    *SyntaxError
}

// newReader returns a reader that already has an error if the bytes are not text of the declared
// character set.
func newReader(b []byte, lim Limits) *reader {
	bad, set := firstBad, "UTF-8"
	latin1 := declaresLatin1(b)
	if latin1 {
		bad, set = firstControl, "ISO-8859-1"
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if i := bad(b); i >= 0 {
		line := 1 + bytes.Count(b[:i], []byte("\n"))
		return &reader{err: &SyntaxError{FaultCharacter, line, fmt.Sprintf("byte 0x%02X is not %s text", b[i], set)}}
	}
	if latin1 {
		b = fromLatin1(b)
	}
	in := &input{b: b}
	d := xml.NewDecoder(in)
	// The method declared checks the character set. The bytes are UTF-8 at this point.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return &reader{d: d, in: in, latin1: latin1, lim: lim.orDefault()}
}

// refersToSurrogate reports whether the raw text of a token refers to half of a
// surrogate pair. XML forbids that (XML 1.0, "Legal Character"), and encoding/xml reads
// it as U+FFFD.
func refersToSurrogate(raw []byte) bool {
	if bytes.HasPrefix(raw, []byte("<![CDATA[")) {
		return false
	}
	for {
		_, after, found := bytes.Cut(raw, []byte("&#"))
		if !found {
			return false
		}
		number, rest, _ := bytes.Cut(after, []byte(";"))
		base := 10
		if hex, ok := bytes.CutPrefix(number, []byte("x")); ok {
			number, base = hex, 16
		}
		if n, err := strconv.ParseUint(string(number), base, 32); err == nil && n >= 0xD800 && n <= 0xDFFF {
			return true
		}
		raw = rest
	}
}

// firstBad returns the index of the first byte that is NUL or not part of a UTF-8
// character, or -1.
func firstBad(b []byte) int {
	if utf8.Valid(b) {
		return bytes.IndexByte(b, 0)
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if b[i] == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// token returns the next token: character data, or the start or end of an element. It returns nil at the end of the
// document, and after an error.
func (r *reader) token() xml.Token {
	for r.err == nil {
		r.in.token = r.d.InputOffset()
		t, err := r.d.RawToken()
		if err != nil {
			if err != io.EOF {
				r.syntax(err)
			}
			return nil
		}
		switch t := t.(type) {
		case xml.Directive:
			r.refuse(FaultParse, "a document type or other <!...> declaration is refused")
		case xml.ProcInst:
			if t.Target == "xml" {
				r.declared(string(t.Inst))
			}
			r.begun = true
		case xml.CharData:
			r.begun = r.begun || !blank(t)
			raw := r.in.b[r.in.token:r.d.InputOffset()]
			if !bytes.ContainsRune(t, utf8.RuneError) || !refersToSurrogate(raw) {
				return t
			}
			r.refuse(FaultCharacter, "a numeric reference to half of a surrogate pair, which is no character; write one reference to the whole character")
		case xml.StartElement, xml.EndElement:
			r.begun = true
			return t
		default: // a comment
			r.begun = true
		}
	}
	return nil
}

// declared checks the XML declaration: it must come first, and name a character set that the bytes are in.
func (r *reader) declared(inst string) {
	if r.begun {
		r.refuse(FaultParse, "the XML declaration is not at the beginning")
	}
	set, named := encodingOf(inst)
	switch lower := strings.ToLower(set); {
	case !named, lower == "utf-8", lower == "utf8":
	case lower == latin1Name:
		if !r.latin1 {
			r.refuse(FaultEncoding, "ISO-8859-1 is declared after the byte order mark of UTF-8, or more than %d bytes long; declare what it is", maxTag)
		}
	case lower == "us-ascii", lower == "ascii":
		for _, c := range r.in.b {
			if c >= utf8.RuneSelf {
				r.refuse(FaultCharacter, "byte 0x%02X is not US-ASCII, as declared", c)
				return
			}
		}
	default:
		r.refuse(FaultEncoding, "encoding %s is refused; send UTF-8, US-ASCII or ISO-8859-1", quote(set))
	}
}

// chars reads text up to and including the next tag, and joins the pieces between comments and
// CDATA sections. child is the name of the next child, or "" if the tag is the end tag of
// parent. If mustBeBlank is true, chars refuses text other than white space.
func (r *reader) chars(parent string, mustBeBlank bool) (text, child string) {
	var s strings.Builder
	for {
		switch t := r.token().(type) {
		case nil:
			r.refuse(FaultParse, "the text ends inside of <%s>", parent)
			return "", ""
		case xml.CharData:
			if !mustBeBlank {
				s.Write(t)
			} else if !blank(t) {
				r.invalid("text %s directly inside of <%s>", quote(string(t)), parent)
			}
		case xml.StartElement:
			return s.String(), label(t.Name)
		case xml.EndElement:
			if end := label(t.Name); end != parent {
				r.refuse(FaultParse, "<%s> is closed by </%s>", parent, plain(end))
			}
			return s.String(), ""
		}
	}
}

// next returns the name of the next element in parent, or "" at the end of parent.
func (r *reader) next(parent string) string {
	_, child := r.chars(parent, true)
	return child
}

// opens reads <name> and returns true, or reads </parent> and returns false.
func (r *reader) opens(name, parent string) bool {
	got := r.next(parent)
	if got != "" && got != name {
		r.invalid("<%s> inside of <%s>, where <%s> is expected", plain(got), parent, name)
	}
	return got == name
}

// open reads <name>, which is required.
func (r *reader) open(name, parent string) {
	if !r.opens(name, parent) {
		r.invalid("<%s> has no <%s>", parent, name)
	}
}

func (r *reader) close(name string) {
	if got := r.next(name); got != "" {
		r.invalid("<%s> inside of <%s>, where nothing more is expected", plain(got), name)
	}
}

// text reads character data up to and including </name>.
func (r *reader) text(name string) string {
	s, child := r.chars(name, false)
	if child != "" {
		r.invalid("<%s> inside of <%s>, where only text is expected", plain(child), name)
	}
	return s
}

// root reads the start tag of the root element, which must be <name>.
func (r *reader) root(name string) {
	for {
		switch t := r.token().(type) {
		case nil:
			r.refuse(FaultParse, "no XML document")
			return
		case xml.CharData:
			if !blank(t) {
				r.refuse(FaultParse, "text %s before the root element", quote(string(t)))
			}
		case xml.StartElement:
			if got := label(t.Name); got != name {
				r.invalid("the root element is <%s>, not <%s>", plain(got), name)
			}
			return
		case xml.EndElement:
			r.refuse(FaultParse, "</%s> before the root element", plain(label(t.Name)))
		}
	}
}

// end checks that nothing follows the root element.
func (r *reader) end() {
	for t := r.token(); t != nil; t = r.token() {
		if c, text := t.(xml.CharData); !text || !blank(c) {
			r.refuse(FaultParse, "something follows the root element")
		}
	}
}

func (r *reader) syntax(err error) {
	switch e := err.(type) {
	case *xml.SyntaxError:
		r.err = &SyntaxError{FaultParse, e.Line, plain(e.Msg)}
	case tagTooLong:
		r.refuse(FaultParse, "a tag is longer than %d bytes", maxTag)
	default:
		r.refuse(FaultParse, "%s", plain(err.Error()))
	}
}

func (r *reader) invalid(format string, args ...any) { r.refuse(FaultInvalid, format, args...) }

// refuse records an error at the present line. It keeps an earlier error.
func (r *reader) refuse(code int, format string, args ...any) {
	if r.err == nil {
		line, _ := r.d.InputPos()
		r.err = &SyntaxError{code, line, pathText(r.path) + fmt.Sprintf(format, args...)}
	}
}

// maxTag is the maximum length of a tag, in bytes. No XML-RPC tag needs attributes, and the
// tokenizer needs much memory for each byte of attributes.
const maxTag = 4096

// input is the source of the tokenizer. It fails inside a tag that is too long.
type input struct {
	b     []byte
	pos   int
	token int64 // where the present token began
}

type tagTooLong struct{}

func (tagTooLong) Error() string { return "tag too long" }

func (in *input) ReadByte() (byte, error) {
	if in.pos >= len(in.b) {
		return 0, io.EOF
	}
	if in.pos-int(in.token) > maxTag && in.b[in.token] == '<' {
		if c := in.b[in.token+1]; c != '!' && c != '?' {
			return 0, tagTooLong{}
		}
	}
	c := in.b[in.pos]
	in.pos++
	return c, nil
}

// Read makes input an io.Reader; the tokenizer uses ReadByte instead.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := in.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

func label(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

func blank(t []byte) bool { return len(bytes.Trim(t, " \t\r\n")) == 0 }
