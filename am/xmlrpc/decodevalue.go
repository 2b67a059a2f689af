package xmlrpc

import (
	"encoding/base64"
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"
)

// value reads what follows <value>, up to and with </value>.
func (r *reader) value(depth int) (Value, error) {
	if r.values++; r.values > r.lim.Values {
		return nil, r.invalid("more than %d values", r.lim.Values)
	}
	if depth > r.lim.Depth {
		return nil, r.invalid("values nest deeper than %d", r.lim.Depth)
	}
	var s strings.Builder
	for {
		t, err := r.token()
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case nil:
			return nil, r.refuse(FaultParse, "the text ends inside of <value>")
		case xml.CharData:
			s.Write(t)
		case xml.EndElement:
			if end := label(t.Name); end != "value" {
				return nil, r.mismatch("value", end)
			}
			return s.String(), nil // no type means string
		case xml.StartElement:
			if text := s.String(); trim(text) != "" {
				return nil, r.invalid("text %s beside <%s> inside of <value>", quote(text), plain(label(t.Name)))
			}
			v, err := r.typed(label(t.Name), depth)
			if err != nil {
				return nil, err
			}
			return v, r.close("value")
		}
	}
}

// typed reads what follows <kind>, up to and with </kind>.
func (r *reader) typed(kind string, depth int) (Value, error) {
	switch kind {
	case "struct":
		return r.structure(depth)
	case "array":
		return r.array(depth)
	case "string", "int", "i4", "i8", "boolean", "double", "base64", "dateTime.iso8601", "nil", "ex:nil":
	default:
		return nil, r.invalid("unknown type <%s>", plain(kind))
	}
	s, err := r.text(kind)
	if err != nil || kind == "string" {
		return s, err
	}
	v, ok := scalar(kind, trim(s))
	if !ok {
		return nil, r.invalid("<%s> holds %s", kind, quote(s))
	}
	return v, nil
}

// scalar reads s, which has no blanks around it, as a value of kind.
func scalar(kind, s string) (v Value, ok bool) {
	switch kind {
	case "int", "i4":
		n, err := strconv.ParseInt(s, 10, 32)
		return int(n), err == nil
	case "i8":
		n, err := strconv.ParseInt(s, 10, strconv.IntSize)
		return int(n), err == nil
	case "boolean":
		return s == "1" || s == "true", s == "1" || s == "0" || s == "true" || s == "false"
	case "double":
		// Go would also read hexadecimal digits and the words for infinity.
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil && !math.IsInf(f, 0) && strings.Trim(s, "+-.0123456789eE") == ""
	case "base64":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
		return b, err == nil
	case "dateTime.iso8601":
		return moment(s)
	default: // nil and ex:nil
		return nil, s == ""
	}
}

// moment reads a time; one without offset is taken as UTC.
func moment(s string) (Value, bool) {
	for _, layout := range [...]string{
		"20060102T15:04:05",
		"20060102T15:04:05Z07:00",
		"2006-01-02T15:04:05",
		"2006-01-02T15:04:05Z07:00",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return nil, false
}

func (r *reader) structure(depth int) (Value, error) {
	s := Struct{}
	var names nameSet
	for {
		more, err := r.opens("member", "struct")
		if err != nil || !more {
			return s, err
		}
		if err := r.open("name", "member"); err != nil {
			return nil, err
		}
		name, err := r.text("name")
		if err != nil {
			return nil, err
		}
		if !names.add(s, name) {
			return nil, r.invalid("member %s is there twice", quote(name))
		}
		if err := r.open("value", "member"); err != nil {
			return nil, err
		}
		r.path = append(r.path, step{name: name})
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
		s = append(s, Member{name, v})
		if err := r.close("member"); err != nil {
			return nil, err
		}
	}
}

func (r *reader) array(depth int) (Value, error) {
	a := []Value{}
	if err := r.open("data", "array"); err != nil {
		return nil, err
	}
	for {
		more, err := r.opens("value", "data")
		if err != nil {
			return nil, err
		}
		if !more {
			return a, r.close("array")
		}
		r.path = append(r.path, step{kind: "item", n: len(a) + 1})
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
		a = append(a, v)
	}
}
