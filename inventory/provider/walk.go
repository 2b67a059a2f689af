package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// walker reads valid JSON once from left to right, without building a tree.
type walker struct{ *json.Decoder }

// walk returns a walker for the text, which must be valid JSON.
func walk(text []byte) walker { return walker{json.NewDecoder(bytes.NewReader(text))} }

// value reads the next value.
func (w walker) value() (raw json.RawMessage) {
	_ = w.Decode(&raw) // cannot fail on valid text
	return raw
}

// unquote returns the text of a JSON string; ok is false for another value.
func unquote(raw json.RawMessage) (text string, ok bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// elements calls f for each element of the next object or array; open is its first character.
// f must read the element.
func (w walker) elements(open json.Delim, f func() error) error {
	if t, _ := w.Token(); t != open {
		return fmt.Errorf("has something else where %q belongs", rune(open))
	}
	for w.More() {
		if err := f(); err != nil {
			return err
		}
	}
	_, err := w.Token()
	return err
}

// members calls f for each member of the next object; f must read the value. Duplicate names
// are an error.
func (w walker) members(f func(key string) error) error {
	seen := make(map[string]bool, 16)
	return w.elements('{', func() error {
		token, _ := w.Token()
		key := fmt.Sprint(token)
		switch {
		case seen[key]:
			return fmt.Errorf("has %q twice in one object", clean(key, 80))
		case len(seen) == maxMembers:
			return fmt.Errorf("has an object of more than %d members", maxMembers)
		}
		seen[key] = true
		return f(key)
	})
}

// items calls f for each item of the next array; f must read the item.
func (w walker) items(limit int, f func() error) error {
	n := 0
	return w.elements('[', func() error {
		if n++; n > limit {
			return fmt.Errorf("has more than %d items", limit)
		}
		return f()
	})
}
