package xmlrpc

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

const declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

// AppendCall appends c to b as a whole document. It fails for values that AppendResponse
// refuses, and for an invalid method name (see ValidMethod). After an error it returns b
// unchanged.
func AppendCall(b []byte, c Call) ([]byte, error) {
	if !ValidMethod(c.Method) {
		return b, fmt.Errorf("cannot encode a call: invalid method name %s", quote(c.Method))
	}
	out := append(b, declaration+"<methodCall><methodName>"...)
	out = append(out, c.Method...)
	out = append(out, "</methodName><params>"...)
	for i, p := range c.Params {
		out = append(out, "<param>"...)
		var err error
		if out, err = appendValue(out, p, 1); err != nil {
			return b, fmt.Errorf("cannot encode parameter %d of %s: %w", i+1, c.Method, err)
		}
		out = append(out, "</param>"...)
	}
	return append(out, "</params></methodCall>\n"...), nil
}

// AppendResponse appends v to b as a whole answer, in ASCII. It fails for nil, a time.Time, a
// type that is not a Value, an int of more than 32 bits, an infinite float64 and NaN. It also
// fails for a struct with two members of the same name, and for values that nest deeper than a
// decoder accepts by default. After an error it returns b unchanged.
func AppendResponse(b []byte, v Value) ([]byte, error) {
	out := append(b, declaration+"<methodResponse><params><param>"...)
	out, err := appendValue(out, v, 1)
	if err != nil {
		return b, fmt.Errorf("cannot encode an answer: %w", err)
	}
	return append(out, "</param></params></methodResponse>\n"...), nil
}

// AppendFault appends f to b as a whole answer. It writes FaultInternal for a code of more
// than 32 bits.
func AppendFault(b []byte, f *Fault) []byte {
	code := f.Code
	if !fits32(code) {
		code = FaultInternal
	}
	b = append(b, declaration+"<methodResponse><fault><value><struct><member><name>faultCode</name><value><int>"...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, "</int></value></member><member><name>faultString</name><value><string>"...)
	b = AppendText(b, f.Text)
	return append(b, "</string></value></member></struct></value></fault></methodResponse>\n"...)
}

// appendValue appends a value. The outermost value has the depth 1.
func appendValue(b []byte, v Value, depth int) ([]byte, error) {
	if depth > defaultDepth {
		return b, fmt.Errorf("deeper than %d", defaultDepth)
	}
	var err error
	b = append(b, "<value>"...)
	switch v := v.(type) {
	case string:
		b = append(b, "<string>"...)
		b = AppendText(b, v)
		b = append(b, "</string>"...)
	case int:
		if !fits32(v) {
			return b, fmt.Errorf("%d is beyond 32 bits", v)
		}
		b = append(b, "<int>"...)
		b = strconv.AppendInt(b, int64(v), 10)
		b = append(b, "</int>"...)
	case bool:
		if v {
			b = append(b, "<boolean>1</boolean>"...)
		} else {
			b = append(b, "<boolean>0</boolean>"...)
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return b, fmt.Errorf("%v is not a number", v)
		}
		b = append(b, "<double>"...)
		b = strconv.AppendFloat(b, v, 'f', -1, 64) // without exponent, as the specification requires
		b = append(b, "</double>"...)
	case Struct:
		b, err = appendStruct(b, v, depth)
	case []Value:
		b = append(b, "<array><data>"...)
		for i := range v {
			if b, err = appendValue(b, v[i], depth+1); err != nil {
				return b, fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		b = append(b, "</data></array>"...)
	case []byte:
		b = append(b, "<base64>"...)
		b = base64.StdEncoding.AppendEncode(b, v)
		b = append(b, "</base64>"...)
	default:
		err = fmt.Errorf("no XML-RPC value is made of %T", v)
	}
	return append(b, "</value>"...), err
}

func appendStruct(b []byte, s Struct, depth int) ([]byte, error) {
	var names nameSet
	var err error
	b = append(b, "<struct>"...)
	for i := range s {
		if !names.add(s[:i], s[i].Name) {
			return b, fmt.Errorf("member %s is there twice", quote(s[i].Name))
		}
		b = append(b, "<member><name>"...)
		b = AppendText(b, s[i].Name)
		b = append(b, "</name>"...)
		if b, err = appendValue(b, s[i].Value, depth+1); err != nil {
			return b, fmt.Errorf("member %s: %w", quote(s[i].Name), err)
		}
		b = append(b, "</member>"...)
	}
	return append(b, "</struct>"...), nil
}

// AppendText appends s to b as the content of a <string>: ASCII with escaped markup. A carriage
// return becomes a character reference, because XML parsers convert a plain carriage return to
// a line feed. Characters that XML does not allow and bytes that are not UTF-8 become U+FFFD.
func AppendText(b []byte, s string) []byte {
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if asIs[c] {
			i++
			continue
		}
		b = append(b, s[done:i]...)
		size := 1
		switch {
		case c == '&':
			b = append(b, "&amp;"...)
		case c == '<':
			b = append(b, "&lt;"...)
		case c == '>':
			b = append(b, "&gt;"...)
		case c == '\r':
			b = append(b, "&#13;"...)
		default:
			r := utf8.RuneError
			if c >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(s[i:])
			}
			if r == 0xFFFE || r == 0xFFFF {
				r = utf8.RuneError
			}
			b = append(b, "&#"...)
			b = strconv.AppendInt(b, int64(r), 10)
			b = append(b, ';')
		}
		i += size
		done = i
	}
	return append(b, s[done:]...)
}

// asIs is true for each byte that needs no escape in character data.
var asIs = func() (t [256]bool) {
	for c := ' '; c <= 0x7f; c++ {
		t[c] = c != '&' && c != '<' && c != '>'
	}
	t['\n'], t['\t'] = true, true
	return t
}()

func fits32(n int) bool { return int(int32(n)) == n }
