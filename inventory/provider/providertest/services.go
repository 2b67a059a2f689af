package providertest

import (
	"encoding/json"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// Steps of every node that is made: one that succeeds, and one that fails.
var (
	succeeds = `{"kind":"execute","shell":"sh","command":"true"}`
	fails    = `{"kind":"execute","shell":"sh","command":"exit 7 # to fail"}`
)

// checkServices waits for the services that a node was made with, and looks what is
// told of them.
func (s *suite) checkServices(name string, asked []string) error {
	if !s.p.Has(provider.AttrSetup) || !s.p.Has(provider.AttrServices) || len(asked) == 0 {
		return nil
	}
	s.begin("look at its services")
	for end := time.Now().Add(s.o.Wait); ; {
		r, err := s.look("look at its services", name)
		if err != nil {
			return err
		}
		items := r.List(provider.AttrServices)
		told := provider.ObservedNode(r).Services
		if len(told) != len(asked) {
			s.wrong(ruleServices, "%s was made with %d services, and get tells of %d; tell of each from when you have accepted it", name, len(asked), len(told))
			return errEnd
		}
		going := false
		for i := range told {
			if told[i].State == "" {
				return errEnd // which was found already
			}
			var step, report struct{ Kind string }
			if json.Unmarshal([]byte(asked[i]), &step) != nil || json.Unmarshal([]byte(items[i]), &report) != nil || step.Kind != report.Kind {
				s.wrong(ruleServices, "services of %s are not in the order of setup: item %d is %.200q", name, i+1, items[i])
				return errEnd
			}
			going = going || told[i].State == am.StepWaiting || told[i].State == am.StepRunning
		}
		if !going {
			for i, r := range told {
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

// checkEnd looks whether a step has ended as it must.
func (s *suite) checkEnd(asked string, state am.StepState, exit int) {
	switch {
	case asked == succeeds && (state != am.StepDone || exit != 0):
		s.wrong(ruleServices, "the command true is told to be %s, with exit %d", state, exit)
	case asked == fails && (state != am.StepFailed || exit == 0):
		s.wrong(ruleServices, "the command exit 7 is told to be %s, with exit %d; a command that ends with another status than 0 is failed, and exit is that status", state, exit)
	}
}
