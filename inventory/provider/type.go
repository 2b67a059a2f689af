package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxText limits the bytes of a string value.
const maxText = 64 << 10

// MaxItems is the maximal number of items of an array.
const MaxItems = 4096

// Type is the type of an attribute: string, boolean, array[string] or enum[a,b].
type Type struct {
	// Base is string, boolean, array or enum.
	Base string
	// Options are the values of an enum.
	Options []string
}

// ParseType parses a type. It ignores blanks; an empty text means string.
func ParseType(s string) (Type, error) {
	text := strings.Join(strings.Fields(s), "")
	switch text {
	case "", "string":
		return Type{Base: "string"}, nil
	case "boolean":
		return Type{Base: "boolean"}, nil
	case "array[string]":
		return Type{Base: "array"}, nil
	}
	inner, ok := strings.CutPrefix(text, "enum[")
	if inner, ok2 := strings.CutSuffix(inner, "]"); ok && ok2 {
		t := Type{Base: "enum", Options: strings.Split(inner, ",")}
		for _, o := range t.Options {
			if o == "" || strings.Trim(o, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
				return Type{}, fmt.Errorf("type %q: an option must consist of lower-case letters and digits", s)
			}
		}
		return t, nil
	}
	return Type{}, fmt.Errorf("type %q is none of string, boolean, array[string], enum[a,b]", s)
}

func (t Type) String() string {
	switch t.Base {
	case "array":
		return "array[string]"
	case "enum":
		return "enum[" + strings.Join(t.Options, ",") + "]"
	}
	return t.Base
}

var errNumber = errors.New("is a number; quote it")

func decodeArray(raw json.RawMessage) (Value, error) {
	out := []string{}
	if raw[0] != '[' {
		return nil, errors.New("is not an array of strings")
	}
	w := walk(raw)
	err := w.items(MaxItems, func() error {
		s, ok := unquote(w.value())
		if !ok {
			return errors.New("is not an array of strings")
		}
		if len(s) > maxText {
			return fmt.Errorf("has an item of more than %d bytes", maxText)
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decode returns the value of the JSON text raw, which must be one valid value of the type t; nil for null. For a short
// number where a string is required, decode returns the number's text and errNumber.
func (t Type) decode(raw json.RawMessage) (Value, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	switch t.Base {
	case "boolean":
		if s := string(raw); s != "true" && s != "false" {
			return nil, errors.New("is not true or false")
		}
		return raw[0] == 't', nil
	case "array":
		return decodeArray(raw)
	}
	s, ok := unquote(raw)
	if !ok {
		if n := string(raw); t.Base == "string" && len(n) <= 20 && strings.Trim(n, "-0123456789") == "" {
			return n, errNumber
		}
		return nil, errors.New("is not a string")
	}
	if len(s) > maxText {
		return nil, fmt.Errorf("has more than %d bytes", maxText)
	}
	if t.Base == "enum" && !slices.Contains(t.Options, s) {
		return nil, fmt.Errorf("is %q, which is not in %s", clean(s, 40), t)
	}
	return s, nil
}
