package am

import (
	"fmt"
	"time"

	plan "patchbay/rspec/step"
)

// StepState is the state of a step as the provider reports it; the value is the
// provider's word. It is empty before the first report.
type StepState string

// States of steps.
const (
	StepWaiting StepState = "waiting"
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// StepReport is the result of the step with the same index in Sliver.Setup.
type StepReport struct {
	State StepState `json:",omitempty"`
	// Began and Ended are times of the provider's clock; zero if it does not report them.
	Began time.Time `json:",omitzero"`
	Ended time.Time `json:",omitzero"`
	// Exit is the exit status of the step's program.
	Exit int `json:",omitempty"`
	// Message is one line for the experimenter: the reason of a failure, or the progress.
	Message string `json:",omitempty"`
	// Output is the last part of the program's output, with line breaks.
	Output string `json:",omitempty"`
}

// StepName returns the name of step i, such as "install 1 of 2". It counts only the steps of
// the same kind.
func (s *Sliver) StepName(i int) string { return plan.StepName(s.Setup, i) }

func (s *Sliver) eachReported(f func(i int, r *StepReport)) {
	for i := range min(len(s.Setup), len(s.Observed.Services)) {
		if r := &s.Observed.Services[i]; r.State != "" {
			f(i, r)
		}
	}
}

// StepFailure returns a text with the first failed step, the reason of its failure, and the
// number of other failed steps. It returns "" if no step failed.
func (s *Sliver) StepFailure() string {
	text, failed := "", 0
	s.eachReported(func(i int, r *StepReport) {
		if r.State != StepFailed {
			return
		}
		if failed++; failed > 1 {
			return
		}
		text = s.StepFailureText(i)
	})
	if failed > 1 {
		text += fmt.Sprintf("; and %d more failed", failed-1)
	}
	return text
}

// StepFailureText returns the name of the failed step i and the reason of its failure.
func (s *Sliver) StepFailureText(i int) string {
	r := &s.Observed.Services[i]
	why := r.Message
	if why == "" {
		why = fmt.Sprintf("it ended with status %d", r.Exit)
	}
	return fmt.Sprintf("%s, %s: %s", s.StepName(i), s.Setup[i].Summary(), why)
}

// StepProgress returns the numbers of steps in each state, as text. It returns "" if the
// provider has not reported any step.
func (s *Sliver) StepProgress() string {
	counts := map[StepState]int{}
	s.eachReported(func(_ int, r *StepReport) { counts[r.State]++ })
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
