package xmlrpc

import (
	"strconv"
	"strings"
)

// Value is one XML-RPC value: string, int, bool, float64, []byte, Struct or []Value.
// A decoder may also return time.Time and nil, which cannot be encoded.
type Value = any

// Member is a named value of a Struct.
type Member struct {
	Name  string
	Value Value
}

// Struct is an XML-RPC struct. Its members keep their order, and their names are
// unique.
type Struct []Member

// Get returns the value of the member called name.
func (s Struct) Get(name string) (Value, bool) {
	for i := range s {
		if s[i].Name == name {
			return s[i].Value, true
		}
	}
	return nil, false
}

// Call is a request: a method and its parameters in order.
type Call struct {
	Method string
	Params []Value
}

// ValidMethod reports whether s can be the name of a method. A name has 1 to 255 characters:
// letters, digits, underscores, dots, colons and slashes.
func ValidMethod(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.:/", c) >= 0) {
			return false
		}
	}
	return true
}

// AsString returns v as text: a string, or the bytes of base64, which some clients send
// instead. It returns false for other values.
func AsString(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// AsInt returns v as a whole number: an int, or a string with a decimal number. It returns
// false for other values.
func AsInt(v Value) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(v))
		return n, err == nil
	}
	return 0, false
}

// AsBool returns v as a truth value: a boolean, the int 0 or 1, or one of the strings true,
// false, 1 and 0, in upper or lower case. ok is false for other values.
func AsBool(v Value) (value, ok bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case int:
		return v == 1, v == 0 || v == 1
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true", "1":
			return true, true
		case "false", "0":
			return false, true
		}
	}
	return false, false
}
