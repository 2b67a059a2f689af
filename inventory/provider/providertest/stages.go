package providertest

import (
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// Steps of the operations stop and uninstall, and a step of a kind that does not exist.
const (
	stops      = `{"kind":"execute","operation":"stop","shell":"sh","command":"true"}`
	uninstalls = `{"kind":"execute","operation":"uninstall","shell":"sh","command":"true"}`
	unknown    = `{"kind":"patchbay-check"}`
)

// staged returns steps of the stages 1 and 2, as items of setup. The first one ends with 0 in its
// first run only, the second one in its second run only. The last one does not end.
func staged(name string) []string {
	file := "/tmp/patchbay-check-" + name
	return []string{
		`{"kind":"execute","stage":1,"shell":"sh","command":"mkdir ` + file + `"}`,
		`{"kind":"execute","stage":1,"shell":"sh","command":"[ -e ` + file + `.again ] || { touch ` + file + `.again; exit 7; } # to fail once"}`,
		`{"kind":"execute","stage":1,"shell":"sh","command":"true"}`,
		`{"kind":"execute","stage":2,"shell":"sh","command":"sleep 3600"}`,
	}
}

func (s *suite) hasStages() bool {
	return s.p.Has(provider.AttrSetup) && s.p.Has(provider.AttrSetupStage) && s.p.Has(provider.AttrServices)
}

// steps returns the steps of a new node, as items of setup.
func (s *suite) steps(name string) []string {
	all := slices.Clone(plainSteps)
	if s.hasStages() {
		all = append(all, staged(name)...)
	}
	if s.acceptsOperations {
		all = append(all, stops, uninstalls)
	}
	return all
}

// checkSteps makes a dry run for a node with steps of the operations stop and uninstall, and one
// for a node with a step of an unknown kind. A provider must refuse steps that it cannot do
// with the kind unsupported.
func (s *suite) checkSteps() {
	if !s.hasStages() {
		return
	}
	dryRun := func(steps ...string) (provider.Change, error) {
		u := s.newUpdate(s.o.Node)
		u.Should[provider.AttrSetup] = append(u.Should.List(provider.AttrSetup), steps...)
		return s.dryRun(u)
	}
	c, err := dryRun(stops, uninstalls)
	switch {
	case err != nil:
		return
	case c.Err == nil:
		s.acceptsOperations = true
	case c.Err.Kind != provider.Unsupported:
		s.wrong(ruleStages, "steps of the operations stop and uninstall are refused with the kind %s: %v; if you cannot do them, use the kind unsupported", c.Err.Kind, detail(c.Err))
	}
	c, err = dryRun(unknown)
	switch {
	case err != nil:
	case c.Err == nil:
		s.wrong(ruleStages, "a step of the unknown kind patchbay-check is accepted; refuse nodes with such steps with the kind unsupported")
	case c.Err.Kind != provider.Unsupported:
		s.wrong(ruleStages, "a step of the unknown kind patchbay-check is refused with the kind %s: %v; use the kind unsupported", c.Err.Kind, detail(c.Err))
	}
}

// checkStages requires that the steps of later stages wait. Then it raises and lowers setup_stage,
// and checks the states of these steps. The parameter setup has the steps with which the
// node was created; those of stage 0 must have ended.
func (s *suite) checkStages(name string, setup []string) error {
	if !s.hasStages() {
		return nil
	}
	const waiting, running, done, failed = am.StepWaiting, am.StepRunning, am.StepDone, am.StepFailed
	c := stageCheck{suite: s, name: name, setup: setup}
	s.progress("check that later stages wait")
	if !s.pause() { // in which a step of a later stage could begin
		return errEnd
	}
	if err := c.expect("check that later stages wait", "0", waiting, waiting, waiting, waiting); err != nil {
		return err
	}
	if err := c.setStage("begin stage 1", "1", done, failed, waiting, waiting); err != nil {
		return err
	}
	if err := c.setStage("go back to stage 0", "0", done, failed, waiting, waiting); err != nil {
		return err
	}
	if err := c.setStage("begin stage 1 again", "1", done, done, done, waiting); err != nil {
		return err
	}
	if err := c.setStage("begin stage 2", "2", done, done, done, running); err != nil {
		return err
	}
	if c.last[sleeper].State != running { // simulated nodes do not sleep
		return nil
	}
	return c.setStage("go back to stage 1", "1", done, done, done, failed)
}

// stageCheck has the previous reports on the node's steps of later stages.
type stageCheck struct {
	*suite
	name  string
	setup []string
	last  []am.StepReport
}

// setStage sets setup_stage, and waits until the node and its steps have the expected states.
// While a step is expected to run, the node need not be ready.
func (c *stageCheck) setStage(does, stage string, want ...am.StepState) error {
	expected := provider.Resource{provider.AttrSetupStage: stage}
	if err := c.request(does, c.name, expected); err != nil {
		return err
	}
	if err := c.expect(does, stage, want...); err != nil || want[sleeper] == am.StepRunning {
		return err
	}
	return c.await(does, c.name, expected)
}

// expect waits until the steps of later stages have the expected states. It records a finding and
// returns errEnd if the time ends, or if a step has a state that it cannot leave.
func (c *stageCheck) expect(does, stage string, want ...am.StepState) error {
	for end := time.Now().Add(c.o.Wait); ; {
		all, err := c.stepReports(does, c.name, c.setup)
		if err != nil {
			return err
		}
		now := all[len(plainSteps):][:len(want)]
		i, final := c.mismatch(now, want)
		switch {
		case i < 0:
			c.last = now
			return nil
		case final || time.Now().After(end):
			c.wrong(ruleStages, "%s: setup_stage is %s, and step %d of setup is %s: %s", does, stage, len(plainSteps)+i+1, now[i].State, c.remedy(i, now[i], want))
			return errEnd
		}
		if !c.pause() {
			return errEnd
		}
	}
}

// sleeper is the step of staged that does not end. On simulated nodes, where nothing runs, it is soon done.
const sleeper = 3

// mismatch returns the first step that does not have the expected state, or -1. The result final
// means that the step cannot reach this state any more.
func (c *stageCheck) mismatch(now []am.StepReport, want []am.StepState) (step int, final bool) {
	for i, r := range now {
		last := am.StepReport{State: am.StepWaiting}
		if c.last != nil {
			last = c.last[i]
		}
		ended := r.State == am.StepDone || r.State == am.StepFailed
		switch {
		case last.State == am.StepDone && ended && !last.Began.Equal(r.Began):
			return i, true // it has run again
		case r.State == want[i] || i == sleeper && want[i] != am.StepWaiting && r.State == am.StepDone && r.Exit == 0:
		default:
			return i, r.State != last.State && (ended || want[i] == am.StepWaiting)
		}
	}
	return -1, false
}

// remedy returns the rule that the state of step i breaks.
func (c *stageCheck) remedy(i int, now am.StepReport, want []am.StepState) string {
	switch {
	case want[i] == am.StepWaiting && (i == 0 || want[i-1] != am.StepFailed):
		return "begin a step only if its stage is not above setup_stage"
	case want[i] == am.StepWaiting:
		return "after a step of a later stage that fails, do no other of that stage"
	case c.last[i].State == am.StepDone:
		return "do not repeat a step that is done"
	case c.last[i].State == am.StepRunning:
		return "when setup_stage falls, end the running steps above it, and report them as failed"
	case c.last[i].State == am.StepFailed:
		return "when setup_stage grows, repeat the failed steps of the stages above the old number"
	}
	return fmt.Sprintf("when setup_stage grows, do the steps of the stages above the old number in the order of setup; this one must be %s", want[i])
}

// checkStop requires that the step of the operation stop is done on a node that was switched off.
func (s *suite) checkStop(name string, setup []string) error {
	if !s.acceptsOperations || !s.p.Has(provider.AttrPower) {
		return nil
	}
	all, err := s.stepReports(stepOff, name, setup)
	if err != nil {
		return err
	}
	if r := all[len(all)-2]; r.State != am.StepDone {
		s.wrong(ruleStages, "%s: the step of the operation stop, the command true, is %s; do it before you switch the node off", stepOff, r.State)
		return errEnd
	}
	return nil
}

// checkUninstall requires that the step of the operation uninstall does not fail on a node that is
// being removed.
func (s *suite) checkUninstall(r provider.Resource) {
	if all := provider.ObservedNode(r).Services; s.acceptsOperations && len(all) > 0 && all[len(all)-1].State == am.StepFailed {
		s.wrong(ruleStages, "%s: the step of the operation uninstall, the command true, is failed; do it before you remove the node", stepRemove)
	}
}
