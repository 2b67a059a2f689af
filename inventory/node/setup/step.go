package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	plan "patchbay/rspec/step"
)

// Kinds of steps.
const (
	Install  = plan.Install
	Execute  = plan.Execute
	UserData = plan.UserData
	Disk     = plan.Disk
)

// maxAssignment is the maximum size of an assignment in JSON, in bytes.
const maxAssignment = 4 << 20

// Step is one step of a node's setup, an item of the attribute "setup".
type Step = plan.Step

// Assignment is the input of "run": a step and its account.
type Assignment struct {
	Step
	// Account is the first account of the node; empty: root.
	Account string `json:"account,omitempty"`
	// Attempt is 0 for the first attempt of the step, and grows with each further attempt.
	Attempt int `json:"attempt,omitempty"`
	// NoEgress is true if nodes have no outside network. It is for error messages.
	NoEgress bool `json:"inside,omitempty"`
}

// ParseStep parses an item of the attribute "setup". Its error is for experimenters. IsUnsupported
// reports whether the item is a valid one that this program cannot do.
func ParseStep(text string) (Step, error) {
	var s Step
	if len(text) > maxAssignment {
		return Step{}, fmt.Errorf("it has more than %d bytes", maxAssignment)
	}
	if err := decodeStrictly([]byte(text), &s); err != nil {
		return Step{}, err
	}
	// So an equal step is equal after it was encoded and decoded.
	s.Files = notEmpty(s.Files)
	if len(s.Environment) == 0 {
		s.Environment = nil
	}
	if a := s.Archive; a != nil {
		a.Users, a.Groups, a.Folders = notEmpty(a.Users), notEmpty(a.Groups), notEmpty(a.Folders)
	}
	return s, checkStep(&s)
}

func notEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

type unsupportedError struct{ error }

// IsUnsupported reports whether ParseStep failed because this program cannot do such a step, for
// example one with an unknown key.
func IsUnsupported(err error) bool {
	_, ok := errors.AsType[unsupportedError](err)
	return ok
}

// decodeStrictly decodes exactly one JSON object without unknown members.
func decodeStrictly(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		err = fmt.Errorf("it is not a valid JSON object of a step: %w", err)
		if json.Unmarshal(text, v) == nil { // only a key is unknown
			err = unsupportedError{err}
		}
		return err
	}
	if d.More() {
		return errors.New("there is text after the JSON object of a step")
	}
	return nil
}
