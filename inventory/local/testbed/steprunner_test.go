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

	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

// withSetup is a new node with steps.
func withSetup(steps ...string) provider.Resource {
	r := present("n", sliceURN, "alice", "bob")
	r["setup"] = steps
	return r
}

// toldServices are the services as get tells them.
func toldServices(t *testing.T, r provider.Resource) []stepState {
	t.Helper()
	var all []stepState
	for _, item := range r.List(provider.AttrServices) {
		var one stepState
		if err := json.Unmarshal([]byte(item), &one); err != nil {
			t.Fatalf("%s: %v", item, err)
		}
		all = append(all, one)
	}
	return all
}

// states are those of the steps, in one word.
func states(t *testing.T, r provider.Resource) string {
	t.Helper()
	var all []string
	for _, s := range toldServices(t, r) {
		all = append(all, s.State)
	}
	return strings.Join(all, " ")
}

func stepsAre(t *testing.T, want string) func(provider.Resource) bool {
	return func(r provider.Resource) bool { return states(t, r) == want }
}

var stepDone = setup.Report{State: setup.Done}

func TestStepsAreDoneInOrder(t *testing.T) {
	w, tb := runningWorld(t)
	name := nodeName(1)
	if c, err := ask(tb, name, withSetup(installs("data:,a", "/a"), installs("data:,b", "~/b"), executes("one"), executes("two"))); err != nil || c["setup"] != nil {
		t.Fatalf("%v, %v", c, err)
	}
	for i, want := range []struct{ states, message string }{
		{"running waiting waiting waiting", "installing 1 of 2: 45 %"},
		{"done running waiting waiting", "installing 2 of 2: 45 %"},
		{"done failed running waiting", "executing 1 of 2: 45 %"},
		{"done failed done running", "executing 2 of 2: 45 %"},
	} {
		r := await(t, tb, name, func(r provider.Resource) bool { return r.Text(provider.AttrMessage) == want.message })
		if got := states(t, r); got != want.states || r.Text(provider.AttrState) != provider.StateChanging {
			t.Errorf("step %d: %s, %v", i+1, got, r)
		}
		if len(r.List(provider.AttrLogin)) == 0 {
			t.Errorf("step %d: nobody can log in and look", i+1)
		}
		if _, ok := r["setup"]; ok {
			t.Error("the setup is told, which is only written")
		}
		report := stepDone
		if i == 1 {
			report = setup.Report{State: setup.Failed, Exit: 1, Message: "no way there", Output: "trying"}
		}
		w.endStep(name, fmt.Sprint(i+1), report)
	}
	r := await(t, tb, name, ready)
	want := []stepState{{Kind: setup.Install, Report: stepDone}, {Kind: setup.Install, Report: setup.Report{State: setup.Failed, Exit: 1, Message: "no way there", Output: "trying"}},
		{Kind: setup.Execute, Report: stepDone}, {Kind: setup.Execute, Report: stepDone}}
	if got := toldServices(t, r); !slices.Equal(got, want) || r.Text(provider.AttrMessage) != "" {
		t.Errorf("%+v, %v", got, r)
	}
	if o := w.steps[name+" 2"].order; o.URL != "data:,b" || o.InstallPath != "~/b" || o.Account != "alice" {
		t.Errorf("it was asked for %+v", o)
	}
	// Another time nothing of it is done.
	for _, should := range []provider.Resource{{"restart_serial": "1"}, {"power": "off"}, {"power": "on"}, {"users": userItems("bob")}} {
		bring(t, tb, name, should)
	}
	if len(w.begun) != 4 {
		t.Errorf("begun were %v", w.begun)
	}
}

func TestExecutesHoldUpOnlyForAWhile(t *testing.T) {
	w := newWorld(t)
	w.settings.ServicesWait = 50 * time.Millisecond
	tb, stop := w.run(-1)
	name := nodeName(1)
	begin := time.Now()
	set(t, tb, name, withSetup(executes("server"), executes("after")))
	r := await(t, tb, name, ready)
	if got := states(t, r); got != "running waiting" || time.Since(begin) < w.settings.ServicesWait {
		t.Errorf("%s after %v", got, time.Since(begin))
	}
	stop()
	tb, stop = w.run(-1) // and the next program waits no second time
	await(t, tb, name, ready)
	stop()
	w.settings.ServicesWait = time.Hour
	dir, j := filepath.Join(w.dir, "state", "nodes", name), stepJournal{}
	if err := readJSON(dir, journalFile, &j); err != nil {
		t.Fatal(err)
	}
	j.Executes = time.Now().Add(time.Hour) // as of a clock that was set back since
	if err := writeJSON(dir, journalFile, j); err != nil {
		t.Fatal(err)
	}
	tb, stop = w.run(-1)
	defer stop()
	await(t, tb, name, ready)
	w.endStep(name, "1", stepDone)
	await(t, tb, name, stepsAre(t, "done running"))
	w.endStep(name, "2", setup.Report{State: setup.Failed, Exit: 9})
	if r := await(t, tb, name, stepsAre(t, "done failed")); !ready(r) {
		t.Errorf("it is not ready any more: %v", r)
	}
	if len(w.begun) != 2 {
		t.Errorf("begun were %v", w.begun)
	}
}

// TestInstallsHaveOneTime: it goes on in the next program, and none begins after it;
// executes do.
func TestInstallsHaveOneTime(t *testing.T) {
	w := newWorld(t)
	w.settings.ServicesWait = time.Millisecond // which is for executes
	up := func() (*Testbed, func()) {
		tb := w.up(-1)
		tb.installsTime = 3 * time.Second // longer than it takes to look at the first
		return tb, w.serve(tb)
	}
	tb, stop := up()
	name := nodeName(1)
	set(t, tb, name, withSetup(installs("data:,a", "/a"), installs("data:,b", "/b"), installs("data:,c", "/c"), executes("one")))
	await(t, tb, name, stepsAre(t, "running waiting waiting waiting"))
	w.endStep(name, "1", stepDone) // at once
	await(t, tb, name, stepsAre(t, "done running waiting waiting"))
	time.Sleep(tb.installsTime)
	if r := look(tb, name); ready(r) {
		t.Errorf("it is ready: %v", r)
	}
	w.mu.Lock()
	w.full = func(name string, v any) bool { // killed before the third
		j, ok := v.(stepJournal)
		return ok && j.Steps[2].State != setup.Waiting
	}
	w.mu.Unlock()
	w.endStep(name, "2", stepDone)
	await(t, tb, name, stepsAre(t, "done done waiting waiting"))
	stop()
	w.mu.Lock()
	w.full = nil
	w.mu.Unlock()
	tb, stop = up()
	defer stop()
	r := await(t, tb, name, stepsAre(t, "done done failed running"))
	if got := toldServices(t, r)[2].Message; !strings.HasPrefix(got, "it was not started, since the installs before it took the maximum of 30 minutes") {
		t.Errorf("the third says %q", got)
	}
	w.endStep(name, "4", stepDone)
	await(t, tb, name, ready)
	if len(w.begun) != 3 {
		t.Errorf("begun were %v", w.begun)
	}
}

// TestNodeThatStopsEndsItsStep: that is no failure of a command if it was asked
// for, and else it is.
func TestNodeThatStopsEndsItsStep(t *testing.T) {
	for what, tt := range map[string]struct {
		stops                func(w *world, tb *Testbed, name string) error
		execute, of, install string // what becomes of it, what it says, and what an install does
	}{
		"a restart": {func(_ *world, tb *Testbed, name string) error {
			_, err := ask(tb, name, provider.Resource{"restart_serial": "1"})
			return err
		}, setup.Done, "it ended with the node, which was restarted", "interrupted: the node was restarted while it ran"},
		"off and on": {func(_ *world, tb *Testbed, name string) error {
			if _, err := ask(tb, name, provider.Resource{"power": "off"}); err != nil {
				return err
			}
			r := await(t, tb, name, ready)
			if got := toldServices(t, r); got[1].State != setup.Running || !strings.HasPrefix(got[1].Message, "the node ended") || got[2].Message != "" {
				t.Errorf("while it is off: %+v", got)
			}
			_, err := ask(tb, name, provider.Resource{"power": "on"})
			return err
		}, setup.Done, "it ended with the node, which was stopped", "interrupted: the node was stopped while it ran"},
		"its own end": {func(w *world, _ *Testbed, name string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.end(name)
			return nil
		}, setup.Failed, "interrupted: the system of the node ended unexpectedly while it ran", ""},
		"one in the node": {func(w *world, _ *Testbed, name string) error {
			w.endStep(name, "2", setup.Report{State: setup.Failed, Message: setup.Interrupted})
			return nil
		}, setup.Failed, setup.Interrupted, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			tb, stop := w.run(-1)
			defer stop()
			name := nodeName(1)
			set(t, tb, name, withSetup(executes("one"), executes("two"), executes("three")))
			r := await(t, tb, name, stepsAre(t, "running waiting waiting"))
			if got := toldServices(t, r); got[1].Message != "waits for step 1, which still runs" || got[2].Message != got[1].Message || got[0].Message != "" {
				t.Errorf("those that wait: %+v", got)
			}
			w.endStep(name, "1", stepDone)
			await(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "2 of 3: 45 %") })
			if err := tt.stops(w, tb, name); err != nil {
				t.Fatal(err)
			}
			r = await(t, tb, name, stepsAre(t, "done "+tt.execute+" running"))
			if got := toldServices(t, r)[1].Message; got != tt.of {
				t.Errorf("the second says %q", got)
			}
			if tt.install != "" {
				cut := stepState{Kind: setup.Install, Interruption: strings.Fields(tt.install)[4]}
				if got := cut.outcome(setup.Report{State: setup.Failed, Message: setup.Interrupted}); got.State != setup.Failed || got.Message != tt.install {
					t.Errorf("an install says %+v", got)
				}
			}
			w.endStep(name, "3", stepDone)
			await(t, tb, name, func(r provider.Resource) bool { return ready(r) && states(t, r) == "done "+tt.execute+" done" })
			if len(w.begun) != 3 {
				t.Errorf("begun were %v", w.begun)
			}
		})
	}
}

func TestSetupsThatAreRefused(t *testing.T) {
	w, tb := runningWorld(t)
	many := make([]string, maxSteps+1)
	for i := range many {
		many[i] = executes("true")
	}
	large := executes(strings.Repeat("x", setup.MaxCommand))
	for _, tt := range []struct {
		rule  string
		steps []string
		err   string
	}{
		{"no step", []string{"{}"}, "step 1 of the setup is refused"},
		{"a wrong one", []string{executes("true"), installs("ftp://example.org/x", "/x")}, "step 2 of the setup is refused: the url"},
		{"an install behind an execute", []string{executes("true"), installs("data:,", "/x")}, "all installs come first"},
		{"too many", many, "can be in 256"},
		{"too much", []string{large, large, large, large, large}, "more than 524288 bytes"},
	} {
		for _, noop := range []bool{true, false} {
			b, _ := json.Marshal(object{"updates": []object{{"name": nodeName(9), "should": withSetup(tt.steps...)}}, "ral": object{"noop": noop}})
			out, err := tb.set(b)
			text, _ := json.Marshal(out)
			if err != nil || !strings.Contains(string(text), tt.err) {
				t.Errorf("%s: %s, %v; want %q", tt.rule, text, err, tt.err)
			}
		}
	}
	name := nodeName(1)
	w.results["one"] = stepDone
	bring(t, tb, name, withSetup(executes("one")))
	if c, err := ask(tb, name, withSetup(`{"command":"one","shell":"sh", "kind":"execute"}`)); c != nil || err != nil {
		t.Errorf("the same again: %v, %v", c, err)
	}
	for _, steps := range [][]string{{}, {executes("two")}, {executes("one"), executes("one")}} {
		if _, err := ask(tb, name, withSetup(steps...)); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("%q instead: %v", steps, err)
		}
	}
}

func TestStepThatCannotBeBegunIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.fails["setup run"] = errors.New("no more processes")
	tb, stop := w.run(-1)
	defer stop()
	name := nodeName(1)
	set(t, tb, name, withSetup(executes("one")))
	r := await(t, tb, name, ready)
	if got := toldServices(t, r); got[0].State != setup.Failed || !strings.Contains(got[0].Message, "no more processes") || w.done["setup run"] != maxStartAttempts {
		t.Errorf("%+v after %d attempts", got, w.done["setup run"])
	}
}

func TestStepIsNotBegunBeforeItIsNoted(t *testing.T) {
	w := newWorld(t)
	w.full = func(name string, _ any) bool { return name == journalFile }
	w.results["one"] = stepDone
	tb, stop := w.run(-1)
	defer stop()
	name := nodeName(1)
	set(t, tb, name, withSetup(executes("one")))
	await(t, tb, name, func(r provider.Resource) bool { return strings.HasPrefix(r.Text(provider.AttrMessage), "executing") })
	time.Sleep(20 * time.Millisecond)
	w.mu.Lock()
	begun := len(w.begun)
	w.full = nil
	w.mu.Unlock()
	if begun > 0 {
		t.Errorf("begun were %v", w.begun)
	}
	await(t, tb, name, ready)
	if len(w.begun) != 1 {
		t.Errorf("begun were %v", w.begun)
	}
}

func TestSpoiltNotesOfASetup(t *testing.T) {
	for file, spoilt := range map[string]string{journalFile: "{", stepsFile: "{"} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t)
			tb, stop := w.run(-1)
			name := nodeName(1)
			set(t, tb, name, withSetup(executes("one"), executes("two")))
			await(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "45 %") })
			stop()
			if err := os.WriteFile(filepath.Join(w.dir, "state", "nodes", name, file), []byte(spoilt), 0o600); err != nil {
				t.Fatal(err)
			}
			tb, stop = w.run(-1)
			defer stop()
			if r := await(t, tb, name, ready); states(t, r) != "failed failed" {
				t.Errorf("%v", r)
			}
			if len(w.begun) != 1 {
				t.Errorf("begun were %v", w.begun)
			}
		})
	}
}

// TestStepsBeginOnceWhereverItIsKilled kills the program at every operation in
// turn. The node forgets what is noted outside as over.
func TestStepsBeginOnceWhereverItIsKilled(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 3
	}
	for operations := 0; ; operations += stride {
		w := newWorld(t)
		w.settings.ServicesWait = time.Hour
		for _, command := range []string{"one", "two", "data:,a"} {
			w.results[command] = stepDone
		}
		w.results["one"] = setup.Report{State: setup.Failed, Exit: 1}
		name := nodeName(1)
		n := withSetup(installs("data:,a", "/a"), executes("one"), executes("two"))
		killed := false
		for _, left := range []int{operations, operations / 2, -1} {
			tb, stop := w.run(left)
			if tb == nil {
				killed = true
				continue
			}
			for end := time.Now().Add(30 * time.Second); !w.last.killed(); time.Sleep(time.Millisecond) {
				if _, err := ask(tb, name, n); err != nil && !w.last.killed() {
					t.Fatal(err)
				}
				if r := look(tb, name); ready(r) && states(t, r) == "done failed done" {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("killed after %d operations: %v", operations, look(tb, name))
				}
			}
			killed = killed || w.last.killed()
			stop()
			var j stepJournal
			if err := readJSON(filepath.Join(w.dir, "state", "nodes", name), journalFile, &j); err == nil {
				for i, step := range j.Steps {
					if step.Ended() {
						delete(w.steps, fmt.Sprintf("%s %d", name, i+1))
					}
				}
			}
		}
		if want := []string{name + " 1", name + " 2", name + " 3"}; !slices.Equal(w.begun, want) {
			t.Errorf("killed after %d operations: begun were %v", operations, w.begun)
		}
		if len(w.wrong) > 0 {
			t.Error(w.wrong)
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

// What is noted of outputs is what is told of them, and no more.
func TestNotedOutputsAreBounded(t *testing.T) {
	var j stepJournal
	for n := 1; n <= maxSteps; n++ {
		j.Steps = append(j.Steps, stepState{Kind: setup.Execute, Report: setup.Report{State: setup.Done, Output: strings.Repeat("<", setup.MaxOutput-2) + "!\n"}})
		j.shrinkOutputs()
		outputs := 0
		for _, step := range j.Steps {
			outputs += len(step.Output)
			if !strings.HasSuffix(step.Output, "!\n") {
				t.Fatalf("with %d steps %q is left of an output", n, step.Output)
			}
		}
		if encoded := 6*outputs - 7*n; encoded > maxStepReport || encoded < maxStepReport/4 && n > 4 { // six for each <, five for the rest
			t.Fatalf("the outputs of %d steps take %d bytes", n, encoded)
		}
	}
}

// TestServicesFitIntoAnswers asks for a node alone and with others: outputs are cut,
// and left out last.
func TestServicesFitIntoAnswers(t *testing.T) {
	s := &stepRunner{}
	for range 16 {
		s.journal.Steps = append(s.journal.Steps, stepState{Kind: setup.Execute, Report: setup.Report{
			State: setup.Failed, Exit: 1, Message: strings.Repeat("m", 300), Output: strings.Repeat("o", setup.MaxOutput-8) + "the end",
		}})
	}
	for _, tt := range []struct{ nodes, least int }{{1, setup.MaxOutput / 2}, {100, setup.MaxOutput / 2}, {1000, setup.MaxOutput / 32}, {20000, 0}} {
		room := min(maxStepReport, maxAnswer/2/tt.nodes)
		all := s.items(room)
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

// TestStepOfANodeThatEndedUnseen: nobody asked for that, and the next program says
// so; what was asked for before stays so.
func TestStepOfANodeThatEndedUnseen(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.run(-1)
	name := nodeName(1)
	set(t, tb, name, withSetup(executes("one")))
	await(t, tb, name, func(r provider.Resource) bool { return strings.HasSuffix(r.Text(provider.AttrMessage), "45 %") })
	stop()
	w.dies(name)
	tb, stop = w.run(-1)
	defer stop()
	r := await(t, tb, name, stepsAre(t, setup.Failed))
	if got := toldServices(t, r)[0].Message; got != "interrupted: the node ended while the testbed did not run, for example when its host was rebooted" {
		t.Errorf("it says %q", got)
	}
	s := &stepRunner{nc: tb.node(name), journal: stepJournal{Steps: []stepState{{Kind: setup.Execute, Report: setup.Report{State: setup.Running}, Interruption: byRestart}}}}
	if s.recordInterruption(whileStopped); s.journal.Steps[0].Interruption != byRestart {
		t.Errorf("it is noted as %s", s.journal.Steps[0].Interruption)
	}
}

// TestStepWhoseShellWasFaster: a shell that hears of the end of the node before
// the node's program does is no other case.
func TestStepWhoseShellWasFaster(t *testing.T) {
	for _, tt := range []struct {
		cut, want string
		exit      int
	}{
		{byRestart, setup.Done, 143}, {byPowerOff, setup.Done, 137}, {byRestart, setup.Failed, 1}, {"", setup.Failed, 143}, {byDeath, setup.Failed, 143},
	} {
		s := stepState{Kind: setup.Execute, Interruption: tt.cut}
		if got := s.outcome(setup.Report{State: setup.Failed, Exit: tt.exit, Message: "the command was ended", Output: "its"}); got.State != tt.want || got.Output != "its" || (got.Exit == 0) != (tt.want == setup.Done) {
			t.Errorf("%q, exit %d: %+v", tt.cut, tt.exit, got)
		}
	}
}
