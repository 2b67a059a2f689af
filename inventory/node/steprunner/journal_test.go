package steprunner

import (
	"strings"
	"testing"

	"patchbay/inventory/node/setup"
)

// The saved outputs are exactly as long as those reported.
func TestSavedOutputsAreBounded(t *testing.T) {
	var j Journal
	for n := 1; n <= MaxSteps; n++ {
		j.Steps = append(j.Steps, Step{Kind: setup.Execute, Report: setup.Report{State: setup.Done, Output: strings.Repeat("<", setup.MaxOutput-2) + "!\n"}})
		j.shrinkOutputs()
		outputs := 0
		for _, step := range j.Steps {
			outputs += len(step.Output)
			if !strings.HasSuffix(step.Output, "!\n") {
				t.Fatalf("with %d steps %q is left of an output", n, step.Output)
			}
		}
		if encoded := 6*outputs - 7*n; encoded > MaxReport || encoded < MaxReport/4 && n > 4 { // six bytes for each <, five for the rest
			t.Fatalf("the outputs of %d steps take %d bytes", n, encoded)
		}
	}
}

// A node is requested alone and with others: outputs are shortened, and finally left out.
func TestStepsFitIntoAnswers(t *testing.T) {
	const answer = 64 << 20 // bytes
	s := &Journal{}
	for range 16 {
		s.Steps = append(s.Steps, Step{Kind: setup.Execute, Report: setup.Report{
			State: setup.Failed, Exit: 1, Message: strings.Repeat("m", 300), Output: strings.Repeat("o", setup.MaxOutput-8) + "the end",
		}})
	}
	for _, tt := range []struct{ nodes, least int }{{1, setup.MaxOutput / 2}, {100, setup.MaxOutput / 2}, {1000, setup.MaxOutput / 32}, {20000, 0}} {
		room := min(MaxReport, answer/2/tt.nodes)
		all := s.Items(room)
		if size := len(strings.Join(all, "")); len(all) != 16 || size > room && tt.least > 0 {
			t.Errorf("%d nodes: %d steps have %d bytes, at most %d can be", tt.nodes, len(all), size, room)
		}
		for _, item := range all {
			if strings.Count(item, "o")+8 < tt.least || strings.Contains(item, "the end") != (tt.least > 0) || strings.Contains(item, "mm") != (tt.least > 0) {
				t.Errorf("%d nodes: %q, want %d bytes of output", tt.nodes, item, tt.least)
			}
		}
	}
}

// An end that was requested is kept when the node is then found to have ended.
func TestFirstInterruptionCounts(t *testing.T) {
	j := Journal{Steps: []Step{{Kind: setup.Execute, Report: setup.Report{State: setup.Running}, Interruption: ByRestart}}}
	if j.Interrupt(WhileStopped) || j.Steps[0].Interruption != ByRestart {
		t.Errorf("%+v", j.Steps[0])
	}
}

func TestInterruptedInstallsFail(t *testing.T) {
	for cut, says := range map[string]string{
		ByRestart: "interrupted: the node was restarted while it ran", ByPowerOff: "interrupted: the node was stopped while it ran",
	} {
		s := Step{Kind: setup.Install, Interruption: cut}
		if got := s.outcome(setup.Report{State: setup.Failed, Message: setup.Interrupted}); got.State != setup.Failed || got.Message != says {
			t.Errorf("%+v", got)
		}
	}
}

// A shell may end before the node's program notices that the node ends.
func TestStepWhoseShellEndedFirst(t *testing.T) {
	for _, tt := range []struct {
		cut, want   string
		exit, stage int
	}{
		{ByRestart, setup.Done, 143, 0}, {ByPowerOff, setup.Done, 137, 0}, {ByRestart, setup.Failed, 1, 0}, {"", setup.Failed, 143, 0}, {ByDeath, setup.Failed, 143, 0},
		{ByRestart, setup.Failed, 143, 1}, {ByPowerOff, setup.Failed, 137, 1}, // others wait for a step of a later stage
	} {
		s := Step{Kind: setup.Execute, Stage: tt.stage, Interruption: tt.cut}
		if got := s.outcome(setup.Report{State: setup.Failed, Exit: tt.exit, Message: "the command was ended", Output: "its"}); got.State != tt.want || got.Output != "its" || (got.Exit == 0) != (tt.want == setup.Done) {
			t.Errorf("%q, exit %d: %+v", tt.cut, tt.exit, got)
		}
	}
}
