package am

import (
	"strings"
	"testing"

	"patchbay/rspec/step"
)

func TestStepsAreNamed(t *testing.T) {
	s := Sliver{Setup: []step.Step{
		{Kind: step.Install, URL: "http://example.org/a.tgz"},
		{Kind: step.Install, URL: "http://example.org/" + strings.Repeat("é", 100)},
		{Kind: step.Execute, Command: "\n  cd /local\nmake"},
		{Kind: step.Execute, Command: "make"},
	}}
	for i, want := range []string{
		"install 1 of 2, http://example.org/a.tgz",
		"install 2 of 2, http://example.org/" + strings.Repeat("é", 30) + "…",
		"execute 1 of 2, cd /local…",
		"execute 2 of 2, make",
	} {
		if got := s.StepName(i) + ", " + s.Setup[i].Summary(); got != want {
			t.Errorf("step %d is %q, want %q", i, got, want)
		}
	}
}

func TestReportsOfSteps(t *testing.T) {
	steps := []step.Step{{Kind: step.Install, URL: "u"}, {Kind: step.Execute, Command: "c"}, {Kind: step.Execute, Command: "d"}}
	for _, tt := range []struct {
		rule              string
		told              []StepReport
		failure, progress string
	}{
		{"nothing is told", nil, "", ""},
		{"nothing that is known", []StepReport{{}, {}, {}}, "", ""},
		{"all is done", []StepReport{{State: StepDone}, {State: StepDone}, {State: StepDone}}, "", "of 3 services 3 done"},
		{"on the way", []StepReport{{State: StepDone}, {State: StepRunning}, {State: StepWaiting}}, "", "of 3 services 1 done, 1 running, 1 waiting"},
		{"one failed", []StepReport{{State: StepDone}, {State: StepFailed, Exit: 3}, {}}, "execute 1 of 2, c: it ended with status 3", "of 3 services 1 done, 1 failed"},
		{"the first says why", []StepReport{{State: StepFailed, Message: "no"}, {State: StepFailed}, {State: StepFailed}}, "install 1 of 1, u: no; and 2 more failed", "of 3 services 0 done, 3 failed"},
		{"more is told than asked", []StepReport{{State: StepDone}, {State: StepDone}, {State: StepDone}, {State: StepFailed}}, "", "of 3 services 3 done"},
	} {
		s := Sliver{Setup: steps, Observed: Observed{Services: tt.told}}
		if f, p := s.StepFailure(), s.StepProgress(); f != tt.failure || p != tt.progress {
			t.Errorf("%s: %q and %q, want %q and %q", tt.rule, f, p, tt.failure, tt.progress)
		}
	}
}
