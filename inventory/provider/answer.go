package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Bounds on one answer, beside its size.
const (
	maxEntries = 200_000
	maxMembers = 1000
	maxRefText = 1024 // a resource's name
)

// answer is a reader of one JSON answer. It walks the text once and keeps only
// what the provider has declared.
type answer struct {
	dec *json.Decoder
	p   *Provider
	log *slog.Logger
}

// read parses one whole answer: list names its array of entries ("resources"
// or "changes"). entries is called for each entry; its error makes the whole
// answer unusable. A top-level error of the provider comes back as *Error.
func (p *Provider) read(text []byte, action, list string, entry func(a *answer) error) (sawList, derive bool, err error) {
	a := &answer{
		dec: json.NewDecoder(bytes.NewReader(text)),
		p:   p,
		log: p.logger().With("provider", p.Name, "action", action),
	}
	var top *Error
	err = a.members(func(key string) error {
		switch key {
		case list:
			sawList = true
			return a.array(func() error { return entry(a) })
		case "derive":
			return a.value(&derive)
		case "error":
			var err error
			top, err = a.error()
			return err
		}
		return a.skip()
	})
	if err == nil {
		if _, end := a.dec.Token(); end != io.EOF {
			err = errors.New("goes on after its JSON object")
		}
	}
	if err != nil {
		return false, false, p.unusable(action, fmt.Errorf("its answer %w", describeJSON(err)))
	}
	if top != nil {
		return false, false, top
	}
	return sawList, derive, nil
}

// describeJSON makes the decoder's own errors readable after "its answer".
func describeJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("is not JSON: %w at byte %d", err, syntax.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("is not one whole JSON object")
	}
	return err
}

// members calls f for each member of the object that comes next; f must read
// the value.
func (a *answer) members(f func(key string) error) error {
	if err := a.expect('{'); err != nil {
		return err
	}
	seen := make(map[string]bool, 16)
	for a.dec.More() {
		t, err := a.dec.Token()
		if err != nil {
			return err
		}
		key := t.(string) // the decoder allows nothing else here
		if seen[key] {
			return fmt.Errorf("has %q twice in one object", clean(key, 80))
		}
		if len(seen) == maxMembers {
			return fmt.Errorf("has an object of more than %d members", maxMembers)
		}
		seen[key] = true
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := a.dec.Token()
	return err
}

func (a *answer) array(f func() error) error {
	if err := a.expect('['); err != nil {
		return err
	}
	for n := 0; a.dec.More(); n++ {
		if n == maxEntries {
			return fmt.Errorf("has more than %d entries", maxEntries)
		}
		if err := f(); err != nil {
			return err
		}
	}
	_, err := a.dec.Token()
	return err
}

func (a *answer) expect(d json.Delim) error {
	t, err := a.dec.Token()
	if err == nil && t != d {
		err = fmt.Errorf("has something else where %q belongs", rune(d))
	}
	return err
}

func (a *answer) raw() (json.RawMessage, error) {
	var raw json.RawMessage
	err := a.dec.Decode(&raw)
	return raw, err
}

func (a *answer) skip() error {
	_, err := a.raw()
	return err
}

// value decodes what comes next into v, where null leaves v alone.
func (a *answer) value(v any) error {
	raw, err := a.raw()
	if err == nil && json.Unmarshal(raw, v) != nil {
		err = fmt.Errorf("has %s where it does not belong", clean(string(raw), 40))
	}
	return err
}

// error reads an error object; null is none.
func (a *answer) error() (*Error, error) {
	raw, err := a.raw()
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	var m map[string]json.RawMessage
	var msg, kind string
	if json.Unmarshal(raw, &m) != nil || optional(m["message"], &msg) != nil || optional(m["kind"], &kind) != nil {
		return nil, errors.New("has an error that is not an object of message and kind, both strings")
	}
	return said(kind, msg), nil
}

func optional(raw json.RawMessage, s *string) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, s)
}

// name reads the name of an entry.
func (a *answer) name() (string, error) {
	var s string
	if err := a.value(&s); err != nil {
		return "", err
	}
	if s == "" || len(s) > maxRefText {
		return "", errors.New("has an entry whose name is empty or too long")
	}
	return s, nil
}

// attribute decodes the value of a declared attribute. What is wrong with it
// concerns its resource alone.
func (a *answer) attribute(name string, t Type, raw json.RawMessage) (Value, *Error) {
	v, wrong := t.decode(raw)
	if errors.Is(wrong, errNumber) {
		a.log.Warn("a number stands for a string", "attribute", name, "value", v)
		wrong = nil
	}
	if wrong != nil {
		return nil, &Error{Kind: Failed, Msg: fmt.Sprintf("provider %s: attribute %s %v", a.p.Name, name, wrong), Temporary: true, Err: wrong}
	}
	return v, nil
}
