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

// reader walks the raw tokens of a document: comments and processing
// instructions are gone, end tags are checked by whoever opened the element.
type reader struct {
	d      *xml.Decoder
	in     *input
	lim    Limits
	values int
	begun  bool   // no XML declaration may follow
	path   []step // where we are, for messages
}

func newReader(b []byte, lim Limits) (*reader, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if i := firstBad(b); i >= 0 {
		line := 1 + bytes.Count(b[:i], []byte("\n"))
		return nil, &SyntaxError{FaultCharacter, line, fmt.Sprintf("byte 0x%02X is not UTF-8 text", b[i])}
	}
	in := &input{b: b}
	d := xml.NewDecoder(in)
	// declared decides about character sets; what it lets pass is UTF-8.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return &reader{d: d, in: in, lim: lim.orDefault()}, nil
}

// refersToSurrogate tells whether the raw text of a token holds a reference to
// half of a surrogate pair, which XML forbids (XML 1.0, "Legal Character") and
// encoding/xml reads as U+FFFD.
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

// firstBad is the index of the first byte that is NUL or no part of a
// character in UTF-8, or -1.
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

// token is the next start tag, end tag or text; nil is the end of the document.
func (r *reader) token() (xml.Token, error) {
	for {
		r.in.token = r.d.InputOffset()
		t, err := r.d.RawToken()
		switch {
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return nil, r.syntax(err)
		}
		switch t := t.(type) {
		case xml.Comment:
			r.begun = true
		case xml.Directive:
			return nil, r.refuse(FaultParse, "a document type or other <!...> declaration is refused")
		case xml.ProcInst:
			if t.Target == "xml" {
				if err := r.declared(string(t.Inst)); err != nil {
					return nil, err
				}
			}
			r.begun = true
		case xml.CharData:
			r.begun = r.begun || !blank(t)
			if raw := r.in.b[r.in.token:r.d.InputOffset()]; bytes.ContainsRune(t, utf8.RuneError) && refersToSurrogate(raw) {
				return nil, r.refuse(FaultCharacter, "a reference to half of a surrogate pair, which is no character; write the whole character")
			}
			return t, nil
		default:
			r.begun = true
			return t, nil
		}
	}
}

// declared looks at the XML declaration.
func (r *reader) declared(inst string) error {
	if r.begun {
		return r.refuse(FaultParse, "the XML declaration is not at the beginning")
	}
	_, after, found := strings.Cut(inst, "encoding")
	if !found {
		return nil
	}
	after = trim(strings.TrimPrefix(trim(after), "="))
	set := ""
	if after != "" {
		if end := strings.IndexByte(after[1:], after[0]); end >= 0 {
			set = after[1 : 1+end]
		}
	}
	switch strings.ToLower(set) {
	case "utf-8", "utf8":
		return nil
	case "us-ascii", "ascii":
		for _, c := range r.in.b {
			if c >= utf8.RuneSelf {
				return r.refuse(FaultCharacter, "byte 0x%02X is not US-ASCII, as declared", c)
			}
		}
		return nil
	}
	return r.refuse(FaultEncoding, "encoding %s is refused; send UTF-8 or US-ASCII", quote(set))
}

// next is the name of the next element inside of parent, or "" when parent ends.
func (r *reader) next(parent string) (string, error) {
	for {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case nil:
			return "", r.refuse(FaultParse, "the text ends inside of <%s>", parent)
		case xml.CharData:
			if !blank(t) {
				return "", r.invalid("text %s directly inside of <%s>", quote(string(t)), parent)
			}
		case xml.StartElement:
			return label(t.Name), nil
		case xml.EndElement:
			if name := label(t.Name); name != parent {
				return "", r.mismatch(parent, name)
			}
			return "", nil
		}
	}
}

// opens reads either <name>, and is true, or </parent>.
func (r *reader) opens(name, parent string) (bool, error) {
	got, err := r.next(parent)
	if err == nil && got != "" && got != name {
		err = r.invalid("<%s> inside of <%s>, where <%s> is expected", plain(got), parent, name)
	}
	return got != "", err
}

// open reads <name>, which is not optional.
func (r *reader) open(name, parent string) error {
	more, err := r.opens(name, parent)
	if err == nil && !more {
		err = r.invalid("<%s> has no <%s>", parent, name)
	}
	return err
}

// close reads </name>.
func (r *reader) close(name string) error {
	got, err := r.next(name)
	if err == nil && got != "" {
		err = r.invalid("<%s> inside of <%s>, where nothing more is expected", plain(got), name)
	}
	return err
}

// text reads character data up to and with </name>, joined over comments and CDATA.
func (r *reader) text(name string) (string, error) {
	var s strings.Builder
	for {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case nil:
			return "", r.refuse(FaultParse, "the text ends inside of <%s>", name)
		case xml.CharData:
			s.Write(t)
		case xml.StartElement:
			return "", r.invalid("<%s> inside of <%s>, where only text is expected", plain(label(t.Name)), name)
		case xml.EndElement:
			if end := label(t.Name); end != name {
				return "", r.mismatch(name, end)
			}
			return s.String(), nil
		}
	}
}

// root reads the document's first start tag.
func (r *reader) root(name string) error {
	for {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case nil:
			return r.refuse(FaultParse, "no XML document")
		case xml.CharData:
			if !blank(t) {
				return r.refuse(FaultParse, "text %s before the root element", quote(string(t)))
			}
		case xml.StartElement:
			if got := label(t.Name); got != name {
				return r.invalid("the root element is <%s>, not <%s>", plain(got), name)
			}
			return nil
		case xml.EndElement:
			return r.refuse(FaultParse, "</%s> before the root element", plain(label(t.Name)))
		}
	}
}

// end makes sure that nothing follows the root element.
func (r *reader) end() error {
	for {
		t, err := r.token()
		switch c, text := t.(xml.CharData); {
		case err != nil:
			return err
		case t == nil:
			return nil
		case !text || !blank(c):
			return r.refuse(FaultParse, "something follows the root element")
		}
	}
}

// syntax gives an error of the tokenizer our own form.
func (r *reader) syntax(err error) error {
	switch e := err.(type) {
	case *xml.SyntaxError:
		return &SyntaxError{FaultParse, e.Line, plain(e.Msg)}
	case tagTooLong:
		return r.refuse(FaultParse, "a tag is longer than %d bytes", maxTag)
	}
	return r.refuse(FaultParse, "%s", plain(err.Error()))
}

func (r *reader) mismatch(open, end string) error {
	return r.refuse(FaultParse, "<%s> is closed by </%s>", open, plain(end))
}

func (r *reader) invalid(format string, args ...any) error {
	return r.refuse(FaultInvalid, format, args...)
}

func (r *reader) refuse(code int, format string, args ...any) error {
	line, _ := r.d.InputPos()
	return &SyntaxError{code, line, where(r.path) + fmt.Sprintf(format, args...)}
}

// maxTag is the longest tag read, in bytes. No XML-RPC tag has a use for
// attributes, and the tokenizer spends far more on one than its bytes.
const maxTag = 4096

// input feeds the tokenizer, and stops inside of a tag that never ends.
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

// Read is what makes an input an io.Reader; the tokenizer reads by byte.
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

// blank tells whether t is nothing but what XML calls white space.
func blank(t []byte) bool { return len(bytes.Trim(t, " \t\r\n")) == 0 }
