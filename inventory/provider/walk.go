package provider

import (
	"encoding/json"
	"errors"
	"fmt"
)

// walker reads text that is known to be valid JSON, once from left to right,
// without making a tree of it.
type walker struct {
	text []byte
	at   int
}

// blank skips white space and reports the next byte, 0 at the end.
func (w *walker) blank() byte {
	for ; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value is the text of the next value.
func (w *walker) value() json.RawMessage {
	w.blank()
	begin, depth := w.at, 0
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case '"':
			w.quoted()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			if depth == 0 { // belongs to whom the value belongs to
				return w.text[begin:w.at]
			}
			depth--
			w.at++
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return w.text[begin:w.at]
			}
			w.at++
			continue
		default:
			w.at++
			continue
		}
		if depth == 0 {
			return w.text[begin:w.at]
		}
	}
	return w.text[begin:w.at]
}

// quoted is the text of the string that begins here, quotes and all.
func (w *walker) quoted() json.RawMessage {
	begin := w.at
	for w.at++; w.at < len(w.text); w.at++ {
		switch w.text[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return w.text[begin:w.at]
		}
	}
	return w.text[begin:]
}

// unquote is the string that raw stands for.
func unquote(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	for _, c := range raw {
		if c == '\\' {
			var s string
			err := json.Unmarshal(raw, &s)
			return s, err == nil
		}
	}
	return string(raw[1 : len(raw)-1]), true
}

// enter steps into an object or array; leave it through next.
func (w *walker) enter(open byte) error {
	if w.blank() != open {
		return fmt.Errorf("has something else where %q belongs", rune(open))
	}
	w.at++
	return nil
}

// next tells whether there is another element before the closing bracket, and
// steps over the comma or the bracket.
func (w *walker) next() bool {
	switch w.blank() {
	case ',':
		w.at++
	case '}', ']', 0:
		w.at++
		return false
	}
	return true
}

// members calls f for each member of the object that comes next; f must read
// the value. No name may come twice.
func (w *walker) members(f func(key string) error) error {
	if err := w.enter('{'); err != nil {
		return err
	}
	seen := make(map[string]bool, 16)
	for w.next() {
		w.blank()
		key, ok := unquote(w.quoted())
		switch {
		case !ok:
			return errors.New("has a member without a name")
		case seen[key]:
			return fmt.Errorf("has %q twice in one object", clean(key, 80))
		case len(seen) == maxMembers:
			return fmt.Errorf("has an object of more than %d members", maxMembers)
		}
		seen[key] = true
		w.blank()
		w.at++ // the colon
		if err := f(key); err != nil {
			return err
		}
	}
	return nil
}

// items calls f for each of at most limit items of the array that comes next;
// f must read the item.
func (w *walker) items(limit int, f func() error) error {
	if err := w.enter('['); err != nil {
		return err
	}
	for n := 0; w.next(); n++ {
		if n == limit {
			return fmt.Errorf("has more than %d items", limit)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
