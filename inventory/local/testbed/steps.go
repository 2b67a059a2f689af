package testbed

import (
	"reflect"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

const (
	maxSteps     = 256
	maxStepBytes = 512 << 10
)

const stepsFile = "setup.json"

// parseSteps parses the attribute "setup". The error is for experimenters.
func parseSteps(items *[]string) ([]setup.Step, error) {
	if items == nil {
		return nil, nil
	}
	if len(*items) > maxSteps {
		return nil, refusalf(provider.Failed, "the setup has %d steps, at most %d are allowed", len(*items), maxSteps)
	}
	size := 0
	var all []setup.Step
	for i, item := range *items {
		s, err := setup.ParseStep(item)
		if err != nil {
			return nil, refusalf(provider.Failed, "step %d of the setup is refused: %v", i+1, err)
		}
		if size += len(s.URL) + len(s.InstallPath) + len(s.FileType) + len(s.Command); size > maxStepBytes {
			return nil, refusalf(provider.Failed, "the setup has more than %d bytes; download large files with an install", maxStepBytes)
		}
		all = append(all, s)
	}
	return all, nil
}

func (nc *nodeController) checkSameSteps(items *[]string) error {
	if items == nil {
		return nil
	}
	steps, err := parseSteps(items)
	if err != nil {
		return err
	}
	kept, err := nc.readSteps()
	if err == nil && !reflect.DeepEqual(steps, kept) {
		err = refusalf(provider.Failed, "the setup of a node cannot be changed; remove the node first")
	}
	return err
}

func (nc *nodeController) readSteps() (steps []setup.Step, err error) {
	if nc.steps != nil {
		err = readJSON(nc.dir(), stepsFile, &steps)
	}
	return steps, err
}
