package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// Limits of one answer, in addition to its size.
const (
	maxEntries      = 200_000 // resources or changes in the answer
	maxMembers      = 1000    // members of one JSON object
	maxResourceName = 1024    // bytes of a resource's name
)

// answer parses one JSON answer. It walks the text once and keeps only declared
// attributes.
type answer struct {
	walker
	p   *Provider
	log *slog.Logger
}

// read parses a whole answer, and calls parseEntry for each entry of the array with the key
// arrayKey. If parseEntry fails, the whole answer is invalid. The result sawList reports whether
// the answer has the array. The result derive is the value of the key "derive". The error is an
// *Error: the answer is invalid, or the provider reported an error for the whole call.
func (p *Provider) read(text []byte, action, arrayKey string, parseEntry func(*answer) error) (sawList, derive bool, err error) {
	a := &answer{walker: walk(text), p: p, log: p.logger().With("provider", p.Name, "action", action)}
	var top *Error
	if err = checkJSON(text); err == nil {
		err = a.members(func(key string) error {
			switch key {
			case arrayKey:
				sawList = true
				return a.items(maxEntries, func() error { return parseEntry(a) })
			case "derive":
				return a.boolean(&derive)
			case "error":
				return a.error(&top)
			}
			a.value()
			return nil
		})
	}
	if err != nil {
		return false, false, p.unusable(action, fmt.Errorf("its answer %w", err))
	}
	if top != nil {
		return false, false, top
	}
	return sawList, derive, nil
}

// checkJSON requires one JSON object in UTF-8. Its error continues the words "its answer".
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	if json.Valid(text) {
		return nil
	}
	var v struct{}
	err := json.Unmarshal(text, &v) // the error has the position of the first mistake
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("is not one JSON object: %w at byte %d", err, syntax.Offset)
	}
	return errors.New("is not one JSON object")
}

// boolean reads a boolean into b. null is false.
func (a *answer) boolean(b *bool) error {
	switch raw := a.value(); string(raw) {
	case "true":
		*b = true
	case "false", "null":
		*b = false
	default:
		return fmt.Errorf("has %s where true or false belongs", clean(string(raw), 40))
	}
	return nil
}

// error parses an error object into e; null means that there is no error.
func (a *answer) error(e **Error) error {
	raw := a.value()
	if string(raw) == "null" {
		return nil
	}
	var m map[string]json.RawMessage
	var msg, kind string
	if json.Unmarshal(raw, &m) != nil || decodeOptional(m["message"], &msg) != nil || decodeOptional(m["kind"], &kind) != nil {
		return errors.New("has an error that is not an object with the strings message and kind")
	}
	*e = reported(kind, msg)
	return nil
}

// decodeOptional decodes a JSON string into s. It leaves s unchanged if the string is missing.
func decodeOptional(raw json.RawMessage, s *string) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, s)
}

// name reads the name of a resource into s. It refuses one that is empty or longer than maxResourceName.
func (a *answer) name(s *string) error {
	raw := a.value()
	name, ok := unquote(raw)
	switch {
	case !ok:
		return fmt.Errorf("has %s where a name belongs", clean(string(raw), 40))
	case name == "" || len(name) > maxResourceName:
		return errors.New("has an entry whose name is empty or too long")
	}
	*s = name
	return nil
}

// attribute decodes the value of a declared attribute. An invalid value makes only this
// resource invalid, not the whole answer: attribute logs the reason and returns an *Error
// for experimenters.
func (a *answer) attribute(name string, t Type, raw json.RawMessage) (Value, *Error) {
	v, wrong := t.decode(raw)
	if errors.Is(wrong, errNumber) {
		a.log.Warn("an attribute has a number instead of a string", "attribute", name, "value", v)
		wrong = nil
	}
	if wrong != nil {
		a.log.Warn("an attribute cannot be used", "attribute", name, "error", wrong)
		return nil, &Error{
			Kind: Failed, Msg: fmt.Sprintf("the provider %s reported an invalid value; the log of the site says why", a.p.Name),
			Temporary: true, Err: fmt.Errorf("provider %s: attribute %s %w", a.p.Name, name, wrong),
		}
	}
	return v, nil
}
