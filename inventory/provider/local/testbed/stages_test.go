package testbed

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
)

// stageStep returns an execute of a stage; more are further keys.
func stageStep(stage int, command, more string) string {
	return fmt.Sprintf(`{"kind":"execute","stage":%d,"shell":"sh","command":%q%s}`, stage, command, more)
}

// setStage requests a stage, which must then be reported.
func setStage(t *testing.T, tb *Testbed, name, stage string) {
	t.Helper()
	set(t, tb, name, provider.Resource{"setup_stage": stage})
	if got := getNode(tb, name).Text(provider.AttrSetupStage); got != stage {
		t.Errorf("the reported stage is %q, want %q", got, stage)
	}
}

// awaitStates waits until the steps have these states.
func awaitStates(t *testing.T, tb *Testbed, name, states string) provider.Resource {
	t.Helper()
	return awaitNode(t, tb, name, hasStepStates(t, states))
}

// started returns the steps of a node that were started, in order.
func (h *fakeHost) started(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ReplaceAll(strings.Join(h.begun, ", "), name+" ", "")
}

// awaitStarted waits until an attempt of a step was started last.
func (h *fakeHost) awaitStarted(name, last string) {
	h.t.Helper()
	wait.Holds(h.t, func() bool { return strings.HasSuffix(", "+h.started(name), ", "+last) }, func() string { return "started were " + h.started(name) })
}

func TestStagesBeginWhenAllowed(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("server"), executeStep("after"),
		`{"kind":"install","stage":1,"url":"data:,a","install_path":"/a"}`, stageStep(1, "one", ""), stageStep(1, "two", ""), stageStep(3, "three", "")))
	r := awaitStates(t, tb, name, "running waiting waiting waiting waiting waiting")
	if got := r.Text(provider.AttrSetupStage); got != "0" {
		t.Errorf("a new node is in stage %s", got)
	}
	if got := reportedSteps(t, r); got[1].Message != "waits for step 1, which still runs" || got[2].Message != "" {
		t.Errorf("those that wait: %+v", got)
	}
	setStage(t, tb, name, "1")
	for _, want := range []struct{ message, states, ends string }{
		{"stage 2: installing 1 of 1: 45 %", "running waiting running waiting waiting waiting", "3"},
		{"stage 2: executing 1 of 2: 45 %", "running waiting done running waiting waiting", "4"},
	} {
		r = awaitNode(t, tb, name, func(r provider.Resource) bool { return r.Text(provider.AttrMessage) == want.message })
		if got := stepStates(t, r); got != want.states || r.Text(provider.AttrState) != provider.StateChanging || len(r.List(provider.AttrLogin)) == 0 {
			t.Errorf("%s: %v", want.message, r)
		}
		h.endStep(name, want.ends, stepDone)
	}
	h.endStep(name, "5", stepDone)
	setStage(t, tb, name, "2")
	awaitStates(t, tb, name, "running waiting done done done waiting")
	setStage(t, tb, name, "3")
	h.endStep(name, "6", stepDone)
	h.endStep(name, "1", stepDone)
	h.endStep(name, "2", stepDone)
	awaitNode(t, tb, name, func(r provider.Resource) bool {
		return isReady(r) && stepStates(t, r) == "done done done done done done"
	})
	if got := h.started(name); got != "1, 3, 4, 5, 6, 2" && got != "1, 3, 4, 5, 2, 6" {
		t.Errorf("started were %s", got)
	}
}

// A step of a later stage delays readiness as long as an execute of stage 0.
func TestStagesDelayReadinessForALimitedTime(t *testing.T) {
	h := newFakeHost(t)
	h.settings.ServicesWait = 20 * time.Millisecond
	tb, stop := h.run(-1)
	defer stop()
	name := nodeName(1)
	setUntilReady(t, tb, name, newNodeWithSetup(executeStep("server"), stageStep(1, "one", "")))
	setStage(t, tb, name, "1")
	awaitStates(t, tb, name, "running running")
	awaitNode(t, tb, name, isReady)
}

// Stages that are allowed at the same time begin one after the other.
func TestStagesAllowedAtOnce(t *testing.T) {
	h := newFakeHost(t)
	h.settings.ServicesWait = 20 * time.Millisecond
	tb, stop := h.run(-1)
	defer stop()
	name := nodeName(1)
	n := newNodeWithSetup(stageStep(2, "two", ""), executeStep("server"), stageStep(1, "one", ""))
	n["setup_stage"] = "2"
	set(t, tb, name, n)
	awaitStates(t, tb, name, "waiting running running") // an execute of stage 0 may be a server
	h.endStep(name, "3", stepDone)
	awaitStates(t, tb, name, "running running done")
	h.endStep(name, "1", stepDone)
	awaitStates(t, tb, name, "done running done")
}

func TestFailedStage(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	failure := setup.Report{State: setup.Failed, Exit: 3, Message: "the command ended with status 3"}
	h.results["zero"], h.results["fails"], h.results["one"] = failure, failure, stepDone
	set(t, tb, name, newNodeWithSetup(executeStep("zero"), executeStep("one"), stageStep(1, "one", ""), stageStep(1, "fails", ""), stageStep(1, "later", "")))
	awaitStates(t, tb, name, "failed done waiting waiting waiting")
	setStage(t, tb, name, "1")
	r := awaitNode(t, tb, name, func(r provider.Resource) bool {
		return isReady(r) && stepStates(t, r) == "failed done done failed waiting"
	})
	if got := reportedSteps(t, r)[4].Message; got != "not run, because step 4 has failed" {
		t.Errorf("the last step says %q", got)
	}
	setUntilReady(t, tb, name, provider.Resource{"restart_serial": "1"}) // starts nothing
	setStage(t, tb, name, "0")
	awaitNode(t, tb, name, isReady)
	h.mu.Lock()
	delete(h.results, "fails")
	h.mu.Unlock()
	setStage(t, tb, name, "1")
	r = awaitStates(t, tb, name, "failed done done running waiting")
	if got := reportedSteps(t, r)[3]; got.Message != "" || got.Exit != 0 {
		t.Errorf("while it runs again: %+v", got)
	}
	h.awaitStarted(name, "4 attempt 1")
	h.endStep(name, "4", stepDone)
	h.endStep(name, "5", stepDone)
	awaitStates(t, tb, name, "failed done done done done")
	if got, want := h.started(name), "1, 2, 3, 4, 4 attempt 1, 5"; got != want {
		t.Errorf("started were %s, want %s", got, want)
	}
	setStage(t, tb, name, "-1")
	setStage(t, tb, name, "0")
	awaitStates(t, tb, name, "failed done done done done")
	if got := h.started(name); !strings.HasSuffix(got, ", 5, 1 attempt 1") {
		t.Errorf("started were %s", got)
	}
}

func TestWithdrawnStageEndsItsSteps(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("server"), stageStep(1, "one", ""), stageStep(1, "two", "")))
	awaitStates(t, tb, name, "running waiting waiting")
	h.awaitStarted(name, "1")
	for attempt, last := range []string{"2", "2 attempt 1", "2 attempt 2"} {
		setStage(t, tb, name, "1")
		awaitStates(t, tb, name, "running running waiting")
		h.awaitStarted(name, last)
		setStage(t, tb, name, "0")
		if attempt == 1 {
			continue // it is allowed again at once
		}
		r := awaitStates(t, tb, name, "running failed waiting")
		if got := reportedSteps(t, r)[1].Message; got != setup.EndedEarly {
			t.Errorf("the ended step says %q", got)
		}
	}
	setStage(t, tb, name, "-1")
	awaitStates(t, tb, name, "failed failed waiting")
	awaitNode(t, tb, name, isReady)
	if len(h.wrong) > 0 {
		t.Error(h.wrong)
	}
}

// A step that has ended before the node is asked to end it keeps its result.
func TestWithdrawnStageKeepsResults(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("zero"), stageStep(1, "one", "")))
	h.endStep(name, "1", stepDone)
	setStage(t, tb, name, "1")
	awaitStates(t, tb, name, "done running")
	slow := make(chan struct{})
	h.mu.Lock()
	h.slow["setup end"] = slow
	h.mu.Unlock()
	setStage(t, tb, name, "0")
	setStage(t, tb, name, "1")
	h.endStep(name, "2", stepDone)
	close(slow)
	awaitStates(t, tb, name, "done done")
	if got := h.started(name); got != "1, 2" {
		t.Errorf("started were %s", got)
	}
}

func TestStageIsKept(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	plain, name := nodeName(1), nodeName(2)
	set(t, tb, plain, newNode("plain", sliceURN, "alice"))
	set(t, tb, name, newNodeWithSetup(stageStep(1, "one", "")))
	setStage(t, tb, plain, "7")
	setStage(t, tb, name, "1")
	awaitStates(t, tb, name, "running")
	h.mu.Lock()
	h.full = func(file string, _ any) bool { return file == journalFile }
	h.mu.Unlock()
	if _, err := trySet(tb, name, provider.Resource{"setup_stage": "0"}); err == nil {
		t.Error("a stage that cannot be saved is accepted")
	}
	for range 2 {
		for name, want := range map[string]string{plain: "7", name: "1"} {
			if got := getNode(tb, name).Text(provider.AttrSetupStage); got != want {
				t.Errorf("%s is in stage %s, want %s", name, got, want)
			}
		}
		stop()
		tb, stop = h.run(-1)
	}
	// A node without the attribute was made by an earlier version.
	stop()
	rec := record{}
	dir := filepath.Join(h.dir, "state", "nodes", plain)
	if err := readJSON(dir, recordFile, &rec); err != nil {
		t.Fatal(err)
	}
	rec.Desired.SetupStage = ""
	if err := writeJSON(dir, recordFile, rec); err != nil {
		t.Fatal(err)
	}
	tb, stop = h.run(-1)
	defer stop()
	if got := getNode(tb, plain).Text(provider.AttrSetupStage); got != "0" {
		t.Errorf("a node of an earlier version is in stage %s", got)
	}
}

func TestRefusedStages(t *testing.T) {
	_, tb := runFakeHost(t)
	name := nodeName(1)
	setUntilReady(t, tb, name, newNode("n", sliceURN, "alice"))
	for _, stage := range []string{"", "-2", "100", "1.5", "01", "+1", "one", "99999999999999999999"} {
		n := newNode("n", sliceURN, "alice")
		n["setup_stage"] = stage
		for id, should := range map[string]provider.Resource{name: {"setup_stage": stage}, nodeName(2): n} {
			if _, err := trySet(tb, id, should); err == nil || !strings.Contains(err.Error(), "a whole number from -1 to 99") {
				t.Errorf("%q: %v", stage, err)
			}
		}
	}
}

// killPhase is a request for a node, and what the node reports afterwards.
type killPhase struct {
	request provider.Resource
	stage   string // "" if the node must settle instead
	states  string
	repair  string // a command that succeeds from now on
}

// killedInPhases makes the requests for the first node in turn. For each number of operations it kills the
// program after them, then after half of them, and then not. Each time the node must start the wanted steps.
func killedInPhases(t *testing.T, results map[string]setup.Report, want string, phases []killPhase) {
	t.Helper()
	stride := 1
	if testing.Short() {
		stride = 5
	}
	name := nodeName(1)
	for operations := 0; ; operations += stride {
		h := newFakeHost(t)
		maps.Copy(h.results, results)
		killed, phase := false, 0
		for _, left := range []int{operations, operations / 2, -1} {
			tb, stop := h.run(left)
			if tb == nil {
				killed = true
				continue
			}
			for end := time.Now().Add(wait.Limit(t)); phase < len(phases) && !h.last.isKilled(); time.Sleep(time.Millisecond) {
				p := phases[phase]
				if p.repair != "" {
					h.mu.Lock()
					h.results[p.repair] = stepDone
					h.mu.Unlock()
				}
				if _, err := trySet(tb, name, p.request); err != nil {
					if !h.last.isKilled() {
						t.Fatal(err)
					}
					break
				}
				r := getNode(tb, name)
				reached := p.stage == "" && isSettled(r) || p.stage != "" && r.Text(provider.AttrSetupStage) == p.stage
				if !h.last.isKilled() && reached && stepStates(t, r) == p.states {
					phase++
				}
				if time.Now().After(end) {
					t.Fatalf("killed after %d operations: phase %d, %v", operations, phase, getNode(tb, name))
				}
			}
			killed = killed || h.last.isKilled()
			stop()
		}
		if got := h.started(name); got != want {
			t.Errorf("killed after %d operations: started were %s, want %s", operations, got, want)
		}
		if len(h.wrong) > 0 {
			t.Error(h.wrong)
		}
		if !killed {
			t.Logf("it has %d operations", operations)
			return
		}
		if t.Failed() {
			return
		}
	}
}

// TestStagesWheneverTheProgramIsKilled kills the program at every operation in turn. Meanwhile
// stage 1 is allowed, withdrawn, and allowed again after its failure.
func TestStagesWheneverTheProgramIsKilled(t *testing.T) {
	results := map[string]setup.Report{"zero": stepDone, "fails": {State: setup.Failed, Exit: 1}}
	stage := func(n string) provider.Resource { return provider.Resource{"setup_stage": n} }
	killedInPhases(t, results, "1, 2, 2 attempt 1, 3", []killPhase{
		{newNodeWithSetup(executeStep("zero"), stageStep(1, "fails", ""), stageStep(1, "last", "")), "0", "done waiting waiting", ""},
		{stage("1"), "1", "done failed waiting", ""},
		{stage("0"), "0", "done failed waiting", ""},
		{stage("1"), "1", "done done running", "fails"},
		{stage("0"), "0", "done done failed", ""},
	})
}

func TestUserDataNeedCloudInit(t *testing.T) {
	h, tb := runFakeHost(t)
	n := newNodeWithSetup(executeStep("one"), `{"kind":"userdata","url":"data:,x"}`)
	n["image"] = "debian-12"
	name := nodeName(1)
	if _, err := trySet(tb, name, n); err == nil || !strings.HasPrefix(err.Error(), "unsupported: step 2 of the setup has user data, and the image debian-12 has no cloud-init") {
		t.Errorf("an image without it: %v", err)
	}
	sbin := filepath.Join(h.dir, "debian-12@1", "usr", "sbin")
	if err := os.MkdirAll(sbin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sbin, "cloud-init"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, tb, name, n)
}
