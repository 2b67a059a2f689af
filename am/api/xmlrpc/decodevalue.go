package xmlrpc

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
)

// part reads a part of another value. During that time, place is the last step of r.path, which
// messages show.
func (r *reader) part(place step, depth int) Value {
	r.path = append(r.path, place)
	v := r.value(depth)
	r.path = r.path[:len(r.path)-1]
	return v
}

// value reads the rest of <value>, up to and including </value>.
func (r *reader) value(depth int) Value {
	if r.values++; r.values > r.lim.Values {
		r.invalid("more than %d values", r.lim.Values)
	}
	if depth > r.lim.Depth {
		r.invalid("values nest deeper than %d", r.lim.Depth)
	}
	text, kind := r.chars("value", false)
	if kind == "" {
		return text // no type means string
	}
	if trim(text) != "" {
		r.invalid("text %s beside <%s> inside of <value>", quote(text), plain(kind))
	}
	v := r.typed(kind, depth)
	r.close("value")
	return v
}

// typed reads the rest of <kind>, up to and including </kind>.
func (r *reader) typed(kind string, depth int) Value {
	switch kind {
	case "struct":
		return r.structure(depth)
	case "array":
		return r.array(depth)
	case "string", "int", "i4", "i8", "boolean", "double", "base64", "dateTime.iso8601", "nil", "ex:nil":
	default:
		r.invalid("unknown type <%s>", plain(kind))
	}
	s := r.text(kind)
	if kind == "string" {
		return s
	}
	v, ok := scalar(kind, trim(s))
	if !ok {
		r.invalid("<%s> holds %s", kind, quote(s))
	}
	return v
}

// scalar returns the value of a simple type. s has no blanks at its ends.
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
		return parseTime(s)
	default: // nil and ex:nil
		return nil, s == ""
	}
}

// parseTime reads a time without an offset as UTC.
func parseTime(s string) (Value, bool) {
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

// structure reads the rest of <struct>.
func (r *reader) structure(depth int) Value {
	s := Struct{}
	var names nameSet
	for r.opens("member", "struct") {
		r.open("name", "member")
		name := r.text("name")
		if !names.add(s, name) {
			r.invalid("member %s is there twice", quote(name))
		}
		r.open("value", "member")
		s = append(s, Member{name, r.part(step{name: name}, depth+1)})
		r.close("member")
	}
	return s
}

// array reads the rest of <array>.
func (r *reader) array(depth int) Value {
	a := []Value{}
	r.open("data", "array")
	for r.opens("value", "data") {
		a = append(a, r.part(step{kind: "item", n: len(a) + 1}, depth+1))
	}
	r.close("array")
	return a
}
