package experimenter

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// stepTable returns a table of steps. It leaves out columns that are empty for all steps. With wide, it also shows when the
// steps began.
func stepTable(w io.Writer, steps []experiment.NodeStep, now time.Time, wide bool) *command.Table {
	hasStages := slices.ContainsFunc(steps, func(x experiment.NodeStep) bool { return x.Stage > 0 })
	t := &command.Table{Out: w, Narrow: true}
	t.Head("NODE", "STEP", "STAGE", "KIND", "OPERATION", "WHAT", "STATE", "BEGAN", "TIME", "MESSAGE")
	for _, x := range steps {
		number, stage, state, began, message := strconv.Itoa(x.Step), "", x.State, "", x.Message
		if x.Of > 0 {
			number = fmt.Sprintf("%d of %d", x.Step, x.Of)
		}
		if hasStages {
			stage = strconv.Itoa(x.Stage + 1)
		}
		if x.Exit != 0 {
			state += fmt.Sprintf(" (%d)", x.Exit)
		}
		if wide && !x.Began.IsZero() {
			began = display.Time(x.Began)
		}
		if experiment.IsStep(x.Service, am.StepRunning) && message == "" {
			message = t.Cut(experiment.LastLine(x.Output), 60)
		}
		t.Row(x.Node, number, stage, x.Kind, x.Operation, experiment.ShortData(x.What), state, began, experiment.StepTime(x.Service, now), message)
	}
	return t
}

// setupError names the steps for which the action patchbay_setup would have to be repeated; nil if
// there are none.
func setupError(list []client.Sliver) error {
	if !experiment.CanContinue(list) {
		return nil
	}
	if failed := experiment.FailedSteps(list); len(failed) > 0 {
		return fmt.Errorf("steps have failed: %s", strings.Join(failed, "; "))
	}
	return errors.New("steps have not run; the column ERROR says why")
}

// setupHint returns the command that runs failed steps of the slice again, and continues.
func (s *opened) setupHint(name string) string {
	return s.Hint("call", "setup", "--slice", name, "--wait")
}

// showSetup shows the current step of each node, and what to do.
func (s *opened) showSetup(name string, list []client.Sliver) error {
	var steps []experiment.NodeStep
	for _, v := range list {
		if x, ok := experiment.CurrentStep(v); ok {
			steps = append(steps, x)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprintf(s.Out, "\n  Setup: %s\n", strings.TrimPrefix(experiment.Plans(list)+"; "+experiment.CountSteps(list), "; "))
	t := stepTable(s.Out, steps, time.Now(), false)
	t.Indent = "  "
	err := t.Flush("")
	fmt.Fprintf(s.Out, "  Show the output of all steps with: %s\n", s.Hint("call", "Status", "--logs", "--slice", name))
	if experiment.CanContinue(list) {
		fmt.Fprintf(s.Out, "  Continue the setup with: %s\n", s.setupHint(name))
	}
	return err
}
