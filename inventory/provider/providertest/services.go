package providertest

import (
	"encoding/json"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// The first steps of each created node, as items of setup. Every provider that declares setup must
// accept them.
const (
	succeeds = `{"kind":"execute","shell":"sh","command":"true"}`
	fails    = `{"kind":"execute","shell":"sh","command":"exit 7 # to fail"}`
)

var plainSteps = []string{succeeds, fails}

// stepReports returns the node's reports on the steps with which it was created. If they cannot be
// used, it records a finding and returns errEnd.
func (s *suite) stepReports(does, name string, setup []string) ([]am.StepReport, error) {
	r, err := s.getNode(does, name)
	if err != nil {
		return nil, err
	}
	items := r.List(provider.AttrServices)
	reports := provider.ObservedNode(r).Services
	if len(reports) != len(setup) {
		s.wrong(ruleServices, "%s was created with %d services, but get reports %d; report each as soon as you have accepted it", name, len(setup), len(reports))
		return nil, errEnd
	}
	for i := range reports {
		if reports[i].State == "" {
			s.checkNode(name, r) // reports it
			return nil, errEnd
		}
		var step, report struct{ Kind string }
		if json.Unmarshal([]byte(setup[i]), &step) != nil || json.Unmarshal([]byte(items[i]), &report) != nil || step.Kind != report.Kind {
			s.wrong(ruleServices, "services of %s are not in the order of setup: item %d is %.200q", name, i+1, items[i])
			return nil, errEnd
		}
	}
	return reports, nil
}

// checkServices waits until plainSteps have ended, and checks the reports on them. The parameter
// setup has the steps with which the node was created.
func (s *suite) checkServices(name string, setup []string) error {
	if !s.p.Has(provider.AttrSetup) || !s.p.Has(provider.AttrServices) {
		return nil
	}
	const does = "check its services"
	s.progress(does)
	for end := time.Now().Add(s.o.Wait); ; {
		all, err := s.stepReports(does, name, setup)
		if err != nil {
			return err
		}
		going, states := false, []am.StepState{}
		for _, r := range all[:len(plainSteps)] {
			going = going || r.State == am.StepWaiting || r.State == am.StepRunning
			states = append(states, r.State)
		}
		if !going {
			for i := range plainSteps {
				s.checkStepEnd(setup[i], all[i].State, all[i].Exit)
			}
			return nil
		}
		if time.Now().After(end) {
			s.wrong(ruleServices, "services of %s have not ended after %v: %v", name, s.o.Wait, states)
			return errEnd
		}
		if !s.pause() {
			return errEnd
		}
	}
}

// checkStepEnd requires that the step succeeds is done with exit status 0, and that the step fails has failed with
// another.
func (s *suite) checkStepEnd(step string, state am.StepState, exit int) {
	switch {
	case step == succeeds && (state != am.StepDone || exit != 0):
		s.wrong(ruleServices, "the command true is reported as %s, with exit %d", state, exit)
	case step == fails && (state != am.StepFailed || exit == 0):
		s.wrong(ruleServices, "the command exit 7 is reported as %s, with exit %d; report a command with another exit status than 0 as failed, with this status in exit", state, exit)
	}
}
