package providertest

import (
	"encoding/json"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// succeeds and fails are the two steps of each created node, as items of setup.
var (
	succeeds = `{"kind":"execute","shell":"sh","command":"true"}`
	fails    = `{"kind":"execute","shell":"sh","command":"exit 7 # to fail"}`
)

// checkServices waits until all steps of the node have ended, and checks the reports on them.
// The parameter setup has the steps with which the node was created.
func (s *suite) checkServices(name string, setup []string) error {
	if !s.p.Has(provider.AttrSetup) || !s.p.Has(provider.AttrServices) || len(setup) == 0 {
		return nil
	}
	s.progress("check its services")
	for end := time.Now().Add(s.o.Wait); ; {
		r, err := s.getNode("check its services", name)
		if err != nil {
			return err
		}
		items := r.List(provider.AttrServices)
		reports := provider.ObservedNode(r).Services
		if len(reports) != len(setup) {
			s.wrong(ruleServices, "%s was created with %d services, but get reports %d; report each as soon as you have accepted it", name, len(setup), len(reports))
			return errEnd
		}
		going := false
		for i := range reports {
			if reports[i].State == "" {
				return errEnd // reported by checkNode
			}
			var step, report struct{ Kind string }
			if json.Unmarshal([]byte(setup[i]), &step) != nil || json.Unmarshal([]byte(items[i]), &report) != nil || step.Kind != report.Kind {
				s.wrong(ruleServices, "services of %s are not in the order of setup: item %d is %.200q", name, i+1, items[i])
				return errEnd
			}
			going = going || reports[i].State == am.StepWaiting || reports[i].State == am.StepRunning
		}
		if !going {
			for i, r := range reports {
				s.checkEnd(setup[i], r.State, r.Exit)
			}
			return nil
		}
		if time.Now().After(end) {
			s.wrong(ruleServices, "services of %s have not ended after %v: %q", name, s.o.Wait, items)
			return errEnd
		}
		if !s.pause() {
			return errEnd
		}
	}
}

// checkEnd requires exit status 0 for the item succeeds, and another exit status for the item
// fails.
func (s *suite) checkEnd(step string, state am.StepState, exit int) {
	switch {
	case step == succeeds && (state != am.StepDone || exit != 0):
		s.wrong(ruleServices, "the command true is reported as %s, with exit %d", state, exit)
	case step == fails && (state != am.StepFailed || exit == 0):
		s.wrong(ruleServices, "the command exit 7 is reported as %s, with exit %d; report a command with another exit status than 0 as failed, with this status in exit", state, exit)
	}
}
