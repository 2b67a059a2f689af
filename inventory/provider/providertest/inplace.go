package providertest

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// What a change of the node adds, as items of setup and interfaces.
const (
	addedStep      = `{"kind":"execute","shell":"sh","command":"true # added"}`
	addedInterface = `{"client_id":"node0:if1","link":"link1","slice":"` + sliceURN + `","addresses":["10.129.0.1/24"],` + noProperties + `}`
)

// checkInPlace changes the interfaces and the steps of the node: an interface is added, and the first two steps
// become a new one and the first one, which must keep its result. It returns the steps after that.
func (s *suite) checkInPlace(made provider.Update) (setup []string, err error) {
	setup = made.Should.List(provider.AttrSetup)
	if !s.p.Has(provider.AttrChangeSerial) || !s.p.Has(provider.AttrSetup) || !s.p.Has(provider.AttrInterfaces) || !s.p.Has(provider.AttrServices) {
		return setup, nil
	}
	const does = "change its links and steps"
	before, err := s.stepReports(does, made.Name, setup)
	if err != nil {
		return setup, err
	}
	setup = slices.Concat([]string{addedStep, succeeds}, setup[len(plainSteps):])
	err = s.step(does, made.Name, provider.Resource{
		provider.AttrChangeSerial: "1", provider.AttrSetup: setup,
		provider.AttrInterfaces: append(slices.Clone(made.Should.List(provider.AttrInterfaces)), addedInterface),
	})
	for end := time.Now().Add(s.o.Wait); err == nil; {
		var now []am.StepReport
		now, err = s.stepReports(does, made.Name, setup)
		switch {
		case err != nil:
		case now[1].State != before[0].State || !now[1].Began.Equal(before[0].Began):
			s.wrong(ruleInPlace, "%s: the step that was the first is now the second, and %s; report steps in the new order, and keep the result of a step with the same JSON object", does, now[1].State)
			return setup, errEnd
		case now[0].State == am.StepDone:
			return setup, nil
		case now[0].State == am.StepFailed || time.Now().After(end):
			s.wrong(ruleInPlace, "%s: the added step, the command true, is %s; do added steps as soon as setup_stage permits it", does, now[0].State)
			return setup, errEnd
		case !s.pause():
			return setup, errEnd
		}
	}
	return setup, err
}
