package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"patchbay/rspec/setup"
)

// Kinds of steps.
const (
	Install = setup.Install
	Execute = setup.Execute
)

// Bounds on a step, in bytes.
const (
	MaxURL        = 256 << 10   // data: URLs count too
	MaxCommand    = 128<<10 - 1 // the kernel's own limit
	maxPath       = 4095
	maxShort      = 64
	maxAssignment = 4 << 20 // in JSON
)

// Step is one step of a node's setup, an item of the attribute "setup".
type Step = setup.Step

// Assignment is the input of "run": a step and its account.
type Assignment struct {
	Step
	// Account is the first account of the node; empty: root.
	Account string `json:"account,omitempty"`
	// NoEgress is true if nodes have no outside network. It is for error messages.
	NoEgress bool `json:"inside,omitempty"`
}

// ParseStep parses an item of the attribute "setup". Its error is for experimenters.
func ParseStep(text string) (Step, error) {
	var s Step
	if len(text) > maxAssignment {
		return Step{}, fmt.Errorf("it has more than %d bytes", maxAssignment)
	}
	if err := decodeStrictly([]byte(text), &s); err != nil {
		return Step{}, err
	}
	return s, checkStep(&s)
}

// decodeStrictly decodes exactly one JSON object without unknown members.
func decodeStrictly(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("it is not a valid JSON object of a step: %w", err)
	}
	if d.More() {
		return errors.New("there is text after the JSON object of a step")
	}
	return nil
}

func checkStep(s *Step) error {
	for _, text := range []string{s.URL, s.InstallPath, s.FileType, s.Shell, s.Command} {
		if strings.ContainsRune(text, 0) {
			return errors.New("it contains a zero byte")
		}
	}
	switch s.Kind {
	case Install:
		return checkInstall(s)
	case Execute:
		return checkExecute(s)
	}
	return fmt.Errorf("the kind %.40q is neither %s nor %s", s.Kind, Install, Execute)
}

func checkInstall(s *Step) error {
	switch {
	case s.Shell != "" || s.Command != "":
		return errors.New("an install has no shell and no command")
	case len(s.URL) > MaxURL:
		return fmt.Errorf("the url has %d bytes, at most %d are allowed", len(s.URL), MaxURL)
	case !isData(s.URL):
		if _, err := parseURL(s.URL); err != nil {
			return err
		}
	}
	switch {
	case len(s.InstallPath) > maxPath || !path.IsAbs(s.InstallPath) && s.InstallPath != "~" && !strings.HasPrefix(s.InstallPath, "~/"):
		return fmt.Errorf("the install_path %.80q is not absolute and does not begin with ~/", s.InstallPath)
	case len(s.FileType) > maxShort:
		return fmt.Errorf("the file_type has %d bytes, at most %d are allowed", len(s.FileType), maxShort)
	}
	return nil
}

func checkExecute(s *Step) error {
	switch {
	case s.URL != "" || s.InstallPath != "" || s.FileType != "":
		return errors.New("an execute has no url, install_path or file_type")
	case s.Shell != "sh" && s.Shell != "bash":
		return fmt.Errorf("the shell %.40q is neither sh nor bash", s.Shell)
	case s.Command == "":
		return errors.New("the command is empty")
	case len(s.Command) > MaxCommand:
		return fmt.Errorf("the command has %d bytes, at most %d are allowed; install a script and execute that", len(s.Command), MaxCommand)
	}
	return nil
}
