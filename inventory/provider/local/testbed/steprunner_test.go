package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/node"
)

// newNodeWithSetup is newNode with steps.
func newNodeWithSetup(steps ...string) provider.Resource {
	r := newNode("n", sliceURN, "alice", "bob")
	r["setup"] = steps
	return r
}

// reportedSteps returns the steps as get reports them.
func reportedSteps(t *testing.T, r provider.Resource) []steprunner.Step {
	t.Helper()
	var all []steprunner.Step
	for _, item := range r.List(provider.AttrServices) {
		var one steprunner.Step
		if err := json.Unmarshal([]byte(item), &one); err != nil {
			t.Fatalf("%s: %v", item, err)
		}
		all = append(all, one)
	}
	return all
}

// stepStates returns the states of the steps as one text.
func stepStates(t *testing.T, r provider.Resource) string {
	t.Helper()
	var all []string
	for _, s := range reportedSteps(t, r) {
		all = append(all, s.State)
	}
	return strings.Join(all, " ")
}

func hasStepStates(t *testing.T, want string) func(provider.Resource) bool {
	return func(r provider.Resource) bool { return stepStates(t, r) == want }
}

var stepDone = setup.Report{State: setup.Done}

func TestStepsRunInOrder(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	if c, err := trySet(tb, name, newNodeWithSetup(installStep("data:,a", "/a"), installStep("data:,b", "~/b"), executeStep("one"), executeStep("two"))); err != nil || c["setup"] != nil {
		t.Fatalf("%v, %v", c, err)
	}
	for i, want := range []struct{ states, message string }{
		{"running waiting waiting waiting", "installing 1 of 2: 45 %"},
		{"done running waiting waiting", "installing 2 of 2: 45 %"},
		{"done failed running waiting", "executing 1 of 2: 45 %"},
		{"done failed done running", "executing 2 of 2: 45 %"},
	} {
		r := awaitNode(t, tb, name, func(r provider.Resource) bool { return r.Text(provider.AttrMessage) == want.message })
		if got := stepStates(t, r); got != want.states || r.Text(provider.AttrState) != provider.StateChanging {
			t.Errorf("step %d: %s, %v", i+1, got, r)
		}
		if len(r.List(provider.AttrLogin)) == 0 {
			t.Errorf("step %d: no user can log in", i+1)
		}
		if got := reportedSteps(t, r)[i].Output; got != "so far" {
			t.Errorf("step %d: the output of the running step is %q", i+1, got)
		}
		if _, ok := r["setup"]; ok {
			t.Error("the write-only setup is reported")
		}
		report := stepDone
		if i == 1 {
			report = setup.Report{State: setup.Failed, Exit: 1, Message: "no way there", Output: "trying"}
		}
		h.endStep(name, fmt.Sprint(i+1), report)
	}
	r := awaitNode(t, tb, name, isReady)
	want := []steprunner.Step{{Kind: setup.Install, Report: stepDone}, {Kind: setup.Install, Report: setup.Report{State: setup.Failed, Exit: 1, Message: "no way there", Output: "trying"}},
		{Kind: setup.Execute, Report: stepDone}, {Kind: setup.Execute, Report: stepDone}}
	if got := reportedSteps(t, r); !slices.Equal(got, want) || r.Text(provider.AttrMessage) != "" {
		t.Errorf("%+v, %v", got, r)
	}
	if o := h.steps[name+" 2"].order; o.URL != "data:,b" || o.InstallPath != "~/b" || o.Account != "alice" {
		t.Errorf("the assignment was %+v", o)
	}
	// A restart repeats no step.
	for _, should := range []provider.Resource{{"restart_serial": "1"}, {"power": "off"}, {"power": "on"}, {"users": userItems("bob")}} {
		setUntilReady(t, tb, name, should)
	}
	if len(h.begun) != 4 {
		t.Errorf("started were %v", h.begun)
	}
}

func TestExecutesDelayReadinessForALimitedTime(t *testing.T) {
	h := newFakeHost(t)
	h.settings.ServicesWait = 50 * time.Millisecond
	tb, stop := h.run(-1)
	name := nodeName(1)
	begin := time.Now()
	set(t, tb, name, newNodeWithSetup(executeStep("server"), executeStep("after")))
	r := awaitNode(t, tb, name, isReady)
	if got := stepStates(t, r); got != "running waiting" || time.Since(begin) < h.settings.ServicesWait {
		t.Errorf("%s after %v", got, time.Since(begin))
	}
	stop()
	tb, stop = h.run(-1) // the next program does not wait again
	awaitNode(t, tb, name, isReady)
	stop()
	h.settings.ServicesWait = time.Hour
	dir, j := filepath.Join(h.dir, "state", "nodes", name), steprunner.Journal{}
	if err := readJSON(dir, journalFile, &j); err != nil {
		t.Fatal(err)
	}
	j.Executes = time.Now().Add(time.Hour) // the clock was set back since then
	if err := writeJSON(dir, journalFile, j); err != nil {
		t.Fatal(err)
	}
	tb, stop = h.run(-1)
	defer stop()
	awaitNode(t, tb, name, isReady)
	h.endStep(name, "1", stepDone)
	awaitNode(t, tb, name, hasStepStates(t, "done running"))
	h.endStep(name, "2", setup.Report{State: setup.Failed, Exit: 9})
	if r := awaitNode(t, tb, name, hasStepStates(t, "done failed")); !isReady(r) {
		t.Errorf("it is not ready any more: %v", r)
	}
	if len(h.begun) != 2 {
		t.Errorf("started were %v", h.begun)
	}
}

// The time limit includes earlier programs. No install starts after it, but executes do.
func TestInstallsShareATimeLimit(t *testing.T) {
	h := newFakeHost(t)
	h.settings.ServicesWait = time.Millisecond // applies to executes
	up := func() (*Testbed, func()) {
		tb := h.open(-1)
		tb.installsTime = 3 * time.Second // longer than the first install takes
		return tb, h.startServing(tb)
	}
	tb, stop := up()
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(installStep("data:,a", "/a"), installStep("data:,b", "/b"), installStep("data:,c", "/c"), executeStep("one")))
	awaitNode(t, tb, name, hasStepStates(t, "running waiting waiting waiting"))
	h.endStep(name, "1", stepDone) // at once
	awaitNode(t, tb, name, hasStepStates(t, "done running waiting waiting"))
	time.Sleep(tb.installsTime)
	if r := getNode(tb, name); isReady(r) {
		t.Errorf("it is ready: %v", r)
	}
	h.mu.Lock()
	h.full = func(name string, v any) bool { // killed before the third is saved
		j, ok := v.(steprunner.Journal)
		return ok && j.Steps[2].State != setup.Waiting
	}
	h.mu.Unlock()
	h.endStep(name, "2", stepDone)
	awaitNode(t, tb, name, hasStepStates(t, "done done waiting waiting"))
	stop()
	h.mu.Lock()
	h.full = nil
	h.mu.Unlock()
	tb, stop = up()
	defer stop()
	r := awaitNode(t, tb, name, hasStepStates(t, "done done failed running"))
	if got := reportedSteps(t, r)[2].Message; !strings.HasPrefix(got, "it was not started, since the installs before it took the maximum of 30 minutes") {
		t.Errorf("the third says %q", got)
	}
	h.endStep(name, "4", stepDone)
	awaitNode(t, tb, name, isReady)
	if len(h.begun) != 3 {
		t.Errorf("started were %v", h.begun)
	}
}

// Shutting down as requested is no failure of an execute; any other end of the node is.
func TestNodeThatStopsEndsItsStep(t *testing.T) {
	for what, tt := range map[string]struct {
		stops       func(h *fakeHost, tb *Testbed, name string) error
		execute, of string // its state, and its message
	}{
		"a restart": {func(_ *fakeHost, tb *Testbed, name string) error {
			_, err := trySet(tb, name, provider.Resource{"restart_serial": "1"})
			return err
		}, setup.Done, "it ended with the node, which was restarted"},
		"off and on": {func(_ *fakeHost, tb *Testbed, name string) error {
			if _, err := trySet(tb, name, provider.Resource{"power": "off"}); err != nil {
				return err
			}
			r := awaitNode(t, tb, name, isReady)
			if got := reportedSteps(t, r); got[1].State != setup.Running || !strings.HasPrefix(got[1].Message, "the node stopped while this step was running") || got[2].Message != "" {
				t.Errorf("while it is off: %+v", got)
			}
			_, err := trySet(tb, name, provider.Resource{"power": "on"})
			return err
		}, setup.Done, "it ended with the node, which was stopped"},
		"its own end": {func(h *fakeHost, _ *Testbed, name string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.endSystem(name)
			return nil
		}, setup.Failed, "interrupted: the system of the node ended unexpectedly while it ran"},
		"one in the node": {func(h *fakeHost, _ *Testbed, name string) error {
			h.endStep(name, "2", setup.Report{State: setup.Failed, Message: setup.Interrupted})
			return nil
		}, setup.Failed, setup.Interrupted},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFakeHost(t)
			tb, stop := h.run(-1)
			defer stop()
			name := nodeName(1)
			set(t, tb, name, newNodeWithSetup(executeStep("one"), executeStep("two"), executeStep("three")))
			r := awaitNode(t, tb, name, hasStepStates(t, "running waiting waiting"))
			if got := reportedSteps(t, r); got[1].Message != "waits for step 1, which still runs" || got[2].Message != got[1].Message || got[0].Message != "" {
				t.Errorf("those that wait: %+v", got)
			}
			h.endStep(name, "1", stepDone)
			awaitNode(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "2 of 3: 45 %") })
			if err := tt.stops(h, tb, name); err != nil {
				t.Fatal(err)
			}
			r = awaitNode(t, tb, name, hasStepStates(t, "done "+tt.execute+" running"))
			if got := reportedSteps(t, r)[1].Message; got != tt.of {
				t.Errorf("the second says %q", got)
			}
			h.endStep(name, "3", stepDone)
			awaitNode(t, tb, name, func(r provider.Resource) bool { return isReady(r) && stepStates(t, r) == "done "+tt.execute+" done" })
			if len(h.begun) != 3 {
				t.Errorf("started were %v", h.begun)
			}
		})
	}
}

func TestRefusedSetups(t *testing.T) {
	h, tb := runFakeHost(t)
	many := make([]string, steprunner.MaxSteps+1)
	for i := range many {
		many[i] = executeStep("true")
	}
	large := executeStep(strings.Repeat("x", setup.MaxCommand))
	for _, tt := range []struct {
		rule  string
		steps []string
		err   string
	}{
		{"no step", []string{"{}"}, "step 1 of the setup is refused"},
		{"a wrong one", []string{executeStep("true"), installStep("ftp://example.org/x", "/x")}, "step 2 of the setup is refused: the url"},
		{"a disk with another file system", []string{`{"kind":"disk","step":"data","size":100,"fstype":"xfs","install_path":"/d"}`}, `"kind":"unsupported","message":"step 1 of the setup (\"data\") is refused: the file system`},
		{"two disks at one place", []string{diskStep(100, "/d"), diskStep(100, "/d/")}, "step 2 of the setup has a second disk at /d"},
		{"a disk that is larger than the host's", []string{diskStep(16<<20, "/d")}, `"kind":"full","message":"the disks of the setup have 16777216 MiB, and the host has`},
		{"a disk that is larger than any", []string{diskStep(16<<20+1, "/d")}, "at most 16777216 are possible"},
		{"too many disks", func() (all []string) {
			for i := range node.MaxDisks + 1 {
				all = append(all, diskStep(16, fmt.Sprint("/d/", i)))
			}
			return all
		}(), "more than 32 disks"},
		{"an unknown kind", []string{`{"kind":"reboot"}`}, `"kind":"unsupported","message":"step 1 of the setup is refused: the kind`},
		{"too many", many, "at most 256 are allowed"},
		{"too much", slices.Repeat([]string{large}, 1+steprunner.MaxStepBytes/setup.MaxCommand), "more than 2097152 bytes"},
	} {
		for _, noop := range []bool{true, false} {
			b, _ := json.Marshal(object{"updates": []object{{"name": nodeName(9), "should": newNodeWithSetup(tt.steps...)}}, "ral": object{"noop": noop}})
			out, err := tb.set(b)
			text, _ := json.Marshal(out)
			if err != nil || !strings.Contains(string(text), tt.err) {
				t.Errorf("%s: %s, %v; want %q", tt.rule, text, err, tt.err)
			}
		}
	}
	name := nodeName(1)
	h.results["one"] = stepDone
	setUntilReady(t, tb, name, newNodeWithSetup(executeStep("one")))
	if c, err := trySet(tb, name, newNodeWithSetup(`{"command":"one","shell":"sh", "kind":"execute"}`)); c != nil || err != nil {
		t.Errorf("the same again: %v, %v", c, err)
	}
	for _, steps := range [][]string{{}, {executeStep("two")}, {executeStep("one"), executeStep("one")}} {
		if _, err := trySet(tb, name, newNodeWithSetup(steps...)); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("%q instead: %v", steps, err)
		}
	}
}

func TestStepThatCannotBeStartedFails(t *testing.T) {
	h := newFakeHost(t)
	h.fails["setup run"] = errors.New("no more processes")
	tb, stop := h.run(-1)
	defer stop()
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("one")))
	r := awaitNode(t, tb, name, isReady)
	if got := reportedSteps(t, r); got[0].State != setup.Failed || !strings.Contains(got[0].Message, "no more processes") || h.done["setup run"] != steprunner.MaxStartAttempts {
		t.Errorf("%+v after %d attempts", got, h.done["setup run"])
	}
}

func TestStepIsSavedBeforeItIsStarted(t *testing.T) {
	h := newFakeHost(t)
	h.full = func(name string, _ any) bool { return name == journalFile }
	h.results["one"] = stepDone
	tb, stop := h.run(-1)
	defer stop()
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("one")))
	awaitNode(t, tb, name, func(r provider.Resource) bool { return strings.HasPrefix(r.Text(provider.AttrMessage), "executing") })
	time.Sleep(20 * time.Millisecond)
	h.mu.Lock()
	begun := len(h.begun)
	h.full = nil
	h.mu.Unlock()
	if begun > 0 {
		t.Errorf("started were %v", h.begun)
	}
	awaitNode(t, tb, name, isReady)
	if len(h.begun) != 1 {
		t.Errorf("started were %v", h.begun)
	}
}

func TestDamagedStepJournal(t *testing.T) {
	for file, spoilt := range map[string]string{journalFile: "{", stepsFile: "{"} {
		t.Run(file, func(t *testing.T) {
			h := newFakeHost(t)
			tb, stop := h.run(-1)
			name := nodeName(1)
			set(t, tb, name, newNodeWithSetup(executeStep("one"), executeStep("two")))
			awaitNode(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "45 %") })
			stop()
			if err := os.WriteFile(filepath.Join(h.dir, "state", "nodes", name, file), []byte(spoilt), 0o600); err != nil {
				t.Fatal(err)
			}
			tb, stop = h.run(-1)
			defer stop()
			if r := awaitNode(t, tb, name, isReady); stepStates(t, r) != "failed failed" {
				t.Errorf("%v", r)
			}
			if len(h.begun) != 1 {
				t.Errorf("started were %v", h.begun)
			}
		})
	}
}

// TestStepsStartOnceWheneverTheProgramIsKilled kills the program at every operation in turn. The
// node forgets steps whose end is saved outside.
func TestStepsStartOnceWheneverTheProgramIsKilled(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 3
	}
	for operations := 0; ; operations += stride {
		h := newFakeHost(t)
		h.settings.ServicesWait = time.Hour
		for _, command := range []string{"one", "two", "data:,a"} {
			h.results[command] = stepDone
		}
		h.results["one"] = setup.Report{State: setup.Failed, Exit: 1}
		name := nodeName(1)
		n := newNodeWithSetup(installStep("data:,a", "/a"), executeStep("one"), executeStep("two"))
		killed := false
		for _, left := range []int{operations, operations / 2, -1} {
			tb, stop := h.run(left)
			if tb == nil {
				killed = true
				continue
			}
			for end := time.Now().Add(30 * time.Second); !h.last.isKilled(); time.Sleep(time.Millisecond) {
				if _, err := trySet(tb, name, n); err != nil && !h.last.isKilled() {
					t.Fatal(err)
				}
				if r := getNode(tb, name); isReady(r) && stepStates(t, r) == "done failed done" {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("killed after %d operations: %v", operations, getNode(tb, name))
				}
			}
			killed = killed || h.last.isKilled()
			stop()
			var j steprunner.Journal
			if err := readJSON(filepath.Join(h.dir, "state", "nodes", name), journalFile, &j); err == nil {
				for i, step := range j.Steps {
					if step.Ended() {
						delete(h.steps, fmt.Sprintf("%s %d", name, i+1))
					}
				}
			}
		}
		if want := []string{name + " 1", name + " 2", name + " 3"}; !slices.Equal(h.begun, want) {
			t.Errorf("killed after %d operations: started were %v", operations, h.begun)
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

// An unexpected end is reported by the next program; an end that was requested before is kept.
func TestStepOfANodeThatEndedWhileStopped(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("one")))
	awaitNode(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "45 %") })
	stop()
	h.killSystem(name)
	tb, stop = h.run(-1)
	defer stop()
	r := awaitNode(t, tb, name, hasStepStates(t, setup.Failed))
	if got := reportedSteps(t, r)[0].Message; got != "interrupted: the node ended while the testbed did not run, for example when its host was rebooted" {
		t.Errorf("the message is %q", got)
	}
}
