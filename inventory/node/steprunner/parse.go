package steprunner

import (
	"encoding/json"
	"fmt"
	"strconv"

	"patchbay/inventory/node/setup"
)

// Limits of a node's setup.
const (
	MaxSteps     = 256
	MaxStepBytes = 2 << 20

	minStage = -1 // no step runs
	maxStage = 99
)

// ParseStage parses the attribute "setup_stage". The error is for experimenters.
func ParseStage(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < minStage || n > maxStage || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("setup_stage is %.40q; it must be a whole number from %d to %d", text, minStage, maxStage)
	}
	return n, nil
}

// ParseSteps parses the attribute "setup". The error is for experimenters; setup.IsUnsupported reports
// whether an item is a valid one that no node can do.
func ParseSteps(items []string) ([]setup.Step, error) {
	if len(items) > MaxSteps {
		return nil, fmt.Errorf("the setup has %d steps, at most %d are allowed", len(items), MaxSteps)
	}
	size := 0
	var all []setup.Step
	for i, item := range items {
		s, err := setup.ParseStep(item)
		if err == nil && s.Stage > maxStage {
			err = fmt.Errorf("the stage %d is above %d", s.Stage, maxStage)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d of the setup%s is refused: %w", i+1, stepLabel(item), err)
		}
		if size += len(s.URL) + len(s.InstallPath) + len(s.FileType) + len(s.Command); !s.IsPlain() {
			size += len(item)
		}
		if size > MaxStepBytes {
			return nil, fmt.Errorf("the setup has more than %d bytes; download large files with an install", MaxStepBytes)
		}
		all = append(all, s)
	}
	return all, nil
}

// stepLabel returns the name of a step in parentheses, if the item has one.
func stepLabel(item string) string {
	var step struct{ Step string }
	if json.Unmarshal([]byte(item), &step) != nil || step.Step == "" {
		return ""
	}
	return fmt.Sprintf(" (%.80q)", step.Step)
}
