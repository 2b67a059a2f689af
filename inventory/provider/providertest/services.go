package providertest

import (
	"encoding/json"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// Steps of each created node: one that succeeds, and one that fails.
var (
	succeeds = `{"kind":"execute","shell":"sh","command":"true"}`
	fails    = `{"kind":"execute","shell":"sh","command":"exit 7 # to fail"}`
)

// checkServices waits for the services that the node was created with, and checks their
// reports.
func (s *suite) checkServices(name string, asked []string) error {
	if !s.p.Has(provider.AttrSetup) || !s.p.Has(provider.AttrServices) || len(asked) == 0 {
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
		if len(reports) != len(asked) {
			s.wrong(ruleServices, "%s was made with %d services, and get reports %d; report each as soon as you have accepted it", name, len(asked), len(reports))
			return errEnd
		}
		going := false
		for i := range reports {
			if reports[i].State == "" {
				return errEnd // reported by checkNode
			}
			var step, report struct{ Kind string }
			if json.Unmarshal([]byte(asked[i]), &step) != nil || json.Unmarshal([]byte(items[i]), &report) != nil || step.Kind != report.Kind {
				s.wrong(ruleServices, "services of %s are not in the order of setup: item %d is %.200q", name, i+1, items[i])
				return errEnd
			}
			going = going || reports[i].State == am.StepWaiting || reports[i].State == am.StepRunning
		}
		if !going {
			for i, r := range reports {
				s.checkEnd(asked[i], r.State, r.Exit)
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

// checkEnd checks the result of the step asked, which must succeed or fail.
func (s *suite) checkEnd(asked string, state am.StepState, exit int) {
	switch {
	case asked == succeeds && (state != am.StepDone || exit != 0):
		s.wrong(ruleServices, "the command true is reported as %s, with exit %d", state, exit)
	case asked == fails && (state != am.StepFailed || exit == 0):
		s.wrong(ruleServices, "the command exit 7 is reported as %s, with exit %d; a command that ends with another status than 0 is failed, and exit is that status", state, exit)
	}
}
