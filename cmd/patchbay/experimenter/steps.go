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
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// nodeStep is a step of a node's setup.
type nodeStep struct {
	client.Service
	node string
	of   int // the number of all steps of the node; 0 if it is not shown
}

func isState(v client.Service, s am.StepState) bool { return v.State == string(s) }

// isPlanned reports whether the step is done when the node is first switched on.
func isPlanned(v client.Service) bool { return v.Operation != "stop" && v.Operation != "uninstall" }

// stepTable returns a table of steps. It leaves out columns that are empty for all steps. With wide, it also shows when the
// steps began.
func stepTable(w io.Writer, steps []nodeStep, now time.Time, wide bool) *command.Table {
	hasStages := slices.ContainsFunc(steps, func(x nodeStep) bool { return x.Stage > 0 })
	t := &command.Table{Out: w, Narrow: true}
	t.Head("NODE", "STEP", "STAGE", "KIND", "OPERATION", "WHAT", "STATE", "BEGAN", "TIME", "MESSAGE")
	for _, x := range steps {
		number, stage, state, began, message := strconv.Itoa(x.Step), "", x.State, "", x.Message
		if x.of > 0 {
			number = fmt.Sprintf("%d of %d", x.Step, x.of)
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
		if isState(x.Service, am.StepRunning) && message == "" {
			message = t.Cut(lastLine(x.Output), 60)
		}
		t.Row(x.node, number, stage, x.Kind, x.Operation, shortData(x.What), state, began, stepTime(x.Service, now), message)
	}
	return t
}

// stepTime returns how long a step took, or how long it has been running; "" if the aggregate does
// not report it.
func stepTime(v client.Service, now time.Time) string {
	end := v.Ended
	if isState(v, am.StepRunning) {
		end = now
	}
	if v.Began.IsZero() || end.IsZero() {
		return ""
	}
	return display.Duration(max(0, end.Sub(v.Began)).Round(time.Second)) // the aggregate's clock may be ahead
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\r\n\t ")
	return text[strings.LastIndexAny(text, "\r\n")+1:]
}

// currentStep returns the last step that runs. Without one, it returns the first failed step, the
// first waiting one, or the last one that is done, of those that the node does when it is first
// switched on. It returns false for a node without such steps.
func currentStep(v client.Sliver) (nodeStep, bool) {
	planned := slices.DeleteFunc(slices.Clone(v.Services), func(x client.Service) bool { return !isPlanned(x) })
	is := func(s am.StepState) func(client.Service) bool {
		return func(x client.Service) bool { return isState(x, s) }
	}
	if n := len(planned); n > 0 {
		step := planned[n-1]
		for _, s := range []am.StepState{am.StepWaiting, am.StepFailed} { // a failed step replaces a waiting one
			if i := slices.IndexFunc(planned, is(s)); i >= 0 {
				step = planned[i]
			}
		}
		for _, x := range v.Services {
			if isState(x, am.StepRunning) {
				step = x
			}
		}
		return nodeStep{step, v.ClientID, len(v.Services)}, true
	}
	return nodeStep{}, false
}

// plansOf returns the texts about the stages that slivers wait for, or "".
func plansOf(list []client.Sliver) string {
	var plans []string
	for _, v := range list {
		if v.Plan != "" {
			plans = append(plans, display.Line(v.Plan))
		}
	}
	slices.Sort(plans)
	return strings.Join(slices.Compact(plans), "; ")
}

// canContinue reports whether the action patchbay_setup would do something: a step has failed, or
// steps of a later stage do not run any more.
func canContinue(list []client.Sliver) bool {
	return slices.ContainsFunc(list, func(v client.Sliver) bool {
		isSettled := v.Operational == string(am.Ready) || v.Operational == string(am.Failed)
		return slices.ContainsFunc(v.Services, func(x client.Service) bool {
			return isPlanned(x) && (isState(x, am.StepFailed) || isState(x, am.StepWaiting) && x.Stage > 0 && isSettled)
		})
	})
}

// setupError names the steps for which the action patchbay_setup would have to be repeated; nil if
// there are none.
func setupError(list []client.Sliver) error {
	if !canContinue(list) {
		return nil
	}
	if failed := failedSteps(list); len(failed) > 0 {
		return fmt.Errorf("steps have failed: %s", strings.Join(failed, "; "))
	}
	return errors.New("steps have not run; the column ERROR says why")
}

// failedSteps returns texts such as "web, step 2: execute make". It leaves out steps of later events.
func failedSteps(list []client.Sliver) (failed []string) {
	for _, v := range list {
		for _, x := range v.Services {
			if isPlanned(x) && isState(x, am.StepFailed) {
				failed = append(failed, fmt.Sprintf("%s, step %d: %s %s", display.Line(v.ClientID), x.Step, display.Line(x.Kind), display.Line(shortData(x.What))))
			}
		}
	}
	return failed
}

// countSteps returns a text such as "steps: 5 of 7 done, 1 failed (web, step 2: execute make)".
func countSteps(list []client.Sliver) string {
	all, done := 0, 0
	for _, v := range list {
		for _, x := range v.Services {
			if isPlanned(x) {
				all++
			}
			if isPlanned(x) && isState(x, am.StepDone) {
				done++
			}
		}
	}
	text := fmt.Sprintf("steps: %d of %d done", done, all)
	const most = 3
	if failed := failedSteps(list); len(failed) > most {
		text += fmt.Sprintf(", %d failed (%s; and %d more)", len(failed), strings.Join(failed[:most], "; "), len(failed)-most)
	} else if len(failed) > 0 {
		text += fmt.Sprintf(", %d failed (%s)", len(failed), strings.Join(failed, "; "))
	}
	return text
}

// setupHint returns the command that runs failed steps of the slice again, and continues.
func (s *opened) setupHint(name string) string {
	return s.Hint("call", "setup", "--slice", name, "--wait")
}

// showSetup shows the current step of each node, and what to do.
func (s *opened) showSetup(name string, list []client.Sliver) error {
	var steps []nodeStep
	for _, v := range list {
		if x, ok := currentStep(v); ok {
			steps = append(steps, x)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprintf(s.Out, "\n  Setup: %s\n", strings.TrimPrefix(plansOf(list)+"; "+countSteps(list), "; "))
	t := stepTable(s.Out, steps, time.Now(), false)
	t.Indent = "  "
	err := t.Flush("")
	fmt.Fprintf(s.Out, "  Show the output of all steps with: %s\n", s.Hint("call", "Status", "--logs", "--slice", name))
	if canContinue(list) {
		fmt.Fprintf(s.Out, "  Continue the setup with: %s\n", s.setupHint(name))
	}
	return err
}
