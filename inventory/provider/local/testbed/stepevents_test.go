package testbed

import (
	"strings"
	"testing"
	"time"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
)

// operationStep returns an execute for an operation.
func operationStep(stage int, command, operation string) string {
	return stageStep(stage, command, `,"operation":"`+operation+`"`)
}

func TestStartStepsRunAtEachSwitchOn(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	for _, command := range []string{"once", "serve", "web", "other"} {
		h.results[command] = stepDone
	}
	set(t, tb, name, newNodeWithSetup(executeStep("once"), operationStep(0, "serve", "start"), operationStep(1, "web", "start"), operationStep(2, "other", "start")))
	awaitStates(t, tb, name, "done done waiting waiting")
	setStage(t, tb, name, "1")
	awaitStates(t, tb, name, "done done done waiting")
	setUntilReady(t, tb, name, provider.Resource{"restart_serial": "1"})
	h.killSystem(name)
	awaitNode(t, tb, name, func(r provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.starts[name] == 3 && isReady(r)
	})
	if got := h.started(name); got != "1, 2, 3" {
		t.Fatalf("after a restart and a death, started were %s", got)
	}
	for _, last := range []string{"3 attempt 1", "3 attempt 2"} {
		h.mu.Lock()
		delete(h.results, "web")
		h.mu.Unlock()
		setUntilReady(t, tb, name, provider.Resource{"power": "off"})
		set(t, tb, name, provider.Resource{"power": "on"})
		awaitStates(t, tb, name, "done done running waiting")
		h.awaitStarted(name, last)
		h.endStep(name, "3", setup.Report{State: setup.Failed, Exit: 1})
		awaitStates(t, tb, name, "done done failed waiting")
	}
	if got, want := h.started(name), "1, 2, 3, 2 attempt 1, 3 attempt 1, 2 attempt 2, 3 attempt 2"; got != want {
		t.Errorf("started were %s, want %s", got, want)
	}
}

func TestStopSteps(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	h.results["one"] = stepDone
	set(t, tb, name, newNodeWithSetup(operationStep(0, "fails", "stop"), operationStep(0, "last", "stop"), operationStep(1, "later", "stop"), executeStep("one")))
	awaitStates(t, tb, name, "waiting waiting waiting done")
	set(t, tb, name, provider.Resource{"power": "off"})
	r := awaitStates(t, tb, name, "running waiting waiting done")
	h.mu.Lock()
	if h.done["halt"] > 0 || isReady(r) {
		t.Errorf("the node is halted before its steps: %v", r)
	}
	h.mu.Unlock()
	h.endStep(name, "1", setup.Report{State: setup.Failed, Exit: 1})
	awaitStates(t, tb, name, "failed running waiting done")
	h.endStep(name, "2", stepDone)
	r = awaitNode(t, tb, name, isReady)
	if got := stepStates(t, r); got != "failed done waiting done" {
		t.Errorf("it is off with %s", got)
	}
	setUntilReady(t, tb, name, provider.Resource{"users": userItems("bob")}) // while it is off
	h.mu.Lock()
	h.results["fails"], h.results["last"], h.results["later"] = stepDone, stepDone, stepDone
	h.mu.Unlock()
	setUntilReady(t, tb, name, provider.Resource{"power": "on", "setup_stage": "1"})
	setUntilReady(t, tb, name, provider.Resource{"restart_serial": "1"})
	r = setUntilReady(t, tb, name, provider.Resource{"power": "off"})
	if got, want := h.started(name), "4, 1, 2, 1 attempt 1, 2 attempt 1, 3"; got != want || stepStates(t, r) != "done done done done" {
		t.Errorf("started were %s, want %s; %s", got, want, stepStates(t, r))
	}
	setUntilReady(t, tb, name, provider.Resource{"power": "on"})
	setUntilReady(t, tb, name, provider.Resource{"power": "off", "setup_stage": "-1"})
	if got := h.started(name); !strings.HasSuffix(got, "attempt 1, 3") {
		t.Errorf("without a stage, started were %s", got)
	}
}

func TestStopStepsHaveATimeLimit(t *testing.T) {
	h := newFakeHost(t)
	tb := h.open(-1)
	tb.eventTime = 100 * time.Millisecond
	defer h.startServing(tb)()
	name := nodeName(1)
	setUntilReady(t, tb, name, newNodeWithSetup(operationStep(0, "forever", "stop"), operationStep(0, "last", "stop")))
	r := setUntilReady(t, tb, name, provider.Resource{"power": "off"})
	for i, step := range reportedSteps(t, r) {
		if step.State != setup.Failed || !strings.HasPrefix(step.Message, "it did not end in time") {
			t.Errorf("step %d: %+v", i+1, step)
		}
	}
	if got := h.started(name); got != "1" {
		t.Errorf("started were %s", got)
	}
}

func TestUninstallSteps(t *testing.T) {
	for _, tt := range []struct {
		rule           string
		before, remove provider.Resource
		runs           bool
	}{
		{"a node that runs", nil, absent, true},
		{"a node that is off", provider.Resource{"power": "off"}, absent, false},
		{"a lease that has ended", nil, provider.Resource{"ensure": "absent", "setup_stage": "-1"}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			h, tb := runFakeHost(t)
			name := nodeName(1)
			setUntilReady(t, tb, name, newNodeWithSetup(operationStep(0, "clean", "uninstall"), operationStep(0, "stop", "stop")))
			if tt.before != nil {
				h.results["stop"] = stepDone
				setUntilReady(t, tb, name, tt.before)
			}
			set(t, tb, name, tt.remove)
			if tt.runs {
				awaitStates(t, tb, name, "running waiting")
				h.mu.Lock()
				if _, open := h.opens[name]; open || h.running[name] == nil {
					t.Error("the step does not run between the end of the logins and that of the node")
				}
				h.mu.Unlock()
				h.endStep(name, "1", stepDone)
			}
			awaitNode(t, tb, name, provider.Gone)
			if got := strings.Contains(h.started(name), "1"); got != tt.runs {
				t.Errorf("started were %s", h.started(name))
			}
		})
	}
}

// A full disk does not keep a node from being switched off or removed.
func TestOperationsOnAFullDisk(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	h.results["serve"] = stepDone
	set(t, tb, name, newNodeWithSetup(operationStep(0, "serve", "start"), operationStep(0, "stop", "stop"), operationStep(0, "clean", "uninstall")))
	awaitStates(t, tb, name, "done waiting waiting")
	awaitNode(t, tb, name, isReady)
	h.mu.Lock()
	h.full = func(file string, _ any) bool { return file == journalFile }
	h.mu.Unlock()
	setUntilReady(t, tb, name, provider.Resource{"power": "off"})
	setUntilReady(t, tb, name, provider.Resource{"power": "on"})
	set(t, tb, name, provider.Resource{"ensure": "absent", "setup_stage": "-1"})
	awaitNode(t, tb, name, provider.Gone)
	if got := h.started(name); got != "1" {
		t.Errorf("started were %s", got)
	}
}

// TestOperationsWheneverTheProgramIsKilled kills the program at every operation in turn, while a node
// is made, switched off and on, and removed.
func TestOperationsWheneverTheProgramIsKilled(t *testing.T) {
	n := newNodeWithSetup(operationStep(0, "serve", "start"), operationStep(0, "stop", "stop"), operationStep(0, "clean", "uninstall"))
	killedInPhases(t, map[string]setup.Report{"serve": stepDone, "stop": stepDone, "clean": stepDone}, "1, 2, 1 attempt 1, 3", []killPhase{
		{request: n, states: "done waiting waiting"}, {request: provider.Resource{"power": "off"}, states: "done done waiting"},
		{request: provider.Resource{"power": "on"}, states: "done done waiting"}, {request: absent},
	})
}
