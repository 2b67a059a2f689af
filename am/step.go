package am

import (
	"fmt"
	"strings"
)

// Kinds of Step.
const (
	StepInstall = "install"
	StepExecute = "execute"
)

// Step is one service that a request asks for on its node: an archive to unpack,
// or a command to run.
type Step struct {
	Kind string
	// URL, Path and FileType are of an install; Path is absolute or begins with ~.
	URL      string `json:",omitempty"`
	Path     string `json:",omitempty"`
	FileType string `json:",omitempty"`
	// Shell, sh or bash, and Command are of an execute.
	Shell   string `json:",omitempty"`
	Command string `json:",omitempty"`
}

// whatShown is how many bytes of a URL or a command name a step.
const whatShown = 80

// What is the step's URL, or the first line of its command: one line, which may
// be shortened.
func (s *Step) What() string {
	text := s.URL
	if s.Kind == StepExecute {
		text = strings.TrimSpace(s.Command)
	}
	line, _, more := strings.Cut(text, "\n")
	if len(line) > whatShown {
		line, more = strings.ToValidUTF8(line[:whatShown], ""), true
	}
	if line = strings.TrimSpace(line); more {
		line += "…"
	}
	return line
}

// StepState is what a provider says of a step; the value is its word. It is empty
// while nothing is known.
type StepState string

// States of steps.
const (
	StepWaiting StepState = "waiting"
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// StepReport is what became of the step in the same place of Sliver.Setup.
type StepReport struct {
	State StepState `json:",omitempty"`
	// Exit is the status that its program ended with.
	Exit int `json:",omitempty"`
	// Message is one line for the experimenter: why it failed, how far it is.
	Message string `json:",omitempty"`
	// Output is the end of what it wrote; lines are kept.
	Output string `json:",omitempty"`
}

// StepName is what to call step i, counted among those of its kind.
func (s *Sliver) StepName(i int) string {
	place, all := 0, 0
	for n := range s.Setup {
		if s.Setup[n].Kind != s.Setup[i].Kind {
			continue
		}
		if all++; n <= i {
			place++
		}
	}
	return fmt.Sprintf("%s %d of %d", s.Setup[i].Kind, place, all)
}

// reported calls f for each step of which its provider has told.
func (s *Sliver) reported(f func(i int, r *StepReport)) {
	for i := range min(len(s.Setup), len(s.Observed.Services)) {
		if r := &s.Observed.Services[i]; r.State != "" {
			f(i, r)
		}
	}
}

// StepFailure names the first step that failed and says why; nothing if none did.
func (s *Sliver) StepFailure() string {
	text, failed := "", 0
	s.reported(func(i int, r *StepReport) {
		if r.State != StepFailed {
			return
		}
		if failed++; failed > 1 {
			return
		}
		why := r.Message
		if why == "" {
			why = fmt.Sprintf("it ended with status %d", r.Exit)
		}
		text = fmt.Sprintf("%s, %s: %s", s.StepName(i), s.Setup[i].What(), why)
	})
	if failed > 1 {
		text += fmt.Sprintf("; and %d more failed", failed-1)
	}
	return text
}

// StepProgress counts the steps by what became of them; nothing if its provider
// has not told of any.
func (s *Sliver) StepProgress() string {
	counts := map[StepState]int{}
	s.reported(func(_ int, r *StepReport) { counts[r.State]++ })
	if len(counts) == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d services %d done", len(s.Setup), counts[StepDone])
	for _, state := range []StepState{StepFailed, StepRunning, StepWaiting} {
		if n := counts[state]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return text
}
