package step

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxOutlineSteps = 8 // named for the nodes of a line
	maxOutlineNodes = 5 // named in a line
)

// Outline returns a plan as text, by stage and then by the later events. Stages have their place, from 1,
// among those with steps, as in the texts of a setup that runs. Each line names the nodes
// that do the same steps, and these steps. The nodes are the client_ids in the order of the plan.
func Outline(nodes []string, plan [][]Step) (lines []string) {
	for _, event := range []string{"", Stop, Uninstall} {
		type part struct {
			stage int
			text  string
		}
		var order []part
		names := map[part][]string{}
		for i, steps := range plan {
			texts := map[int][]string{} // by stage
			for n := range steps {
				s := &steps[n]
				stage, isShown := s.Stage, s.InPlan()
				if event != "" {
					stage, isShown = 0, s.Operation == event
				}
				if isShown {
					texts[stage] = append(texts[stage], outlineOf(steps, n))
				}
			}
			for stage, list := range texts {
				if more := len(list) - maxOutlineSteps; more > 0 {
					list = append(list[:maxOutlineSteps], fmt.Sprintf("and %d more", more))
				}
				p := part{stage, strings.Join(list, "; ")}
				if names[p] == nil {
					order = append(order, p)
				}
				names[p] = append(names[p], strconv.Quote(nodes[i]))
			}
		}
		slices.SortStableFunc(order, func(a, b part) int { return a.stage - b.stage })
		place := 0
		for i, p := range order {
			if i == 0 || p.stage != order[i-1].stage {
				place++
			}
			when := map[string]string{"": fmt.Sprintf("stage %d", place), Stop: "on geni_stop", Uninstall: "on Delete"}[event]
			who := names[p]
			if more := len(who) - maxOutlineNodes; more > 0 {
				who = append(who[:maxOutlineNodes:maxOutlineNodes], fmt.Sprintf("and %d more", more))
			}
			lines = append(lines, when+": "+strings.Join(who, ", ")+": "+p.text)
		}
	}
	return lines
}

// outlineOf returns the name and the summary of step n, and what Start adds.
func outlineOf(steps []Step, n int) string {
	text := StepName(steps, n) + ", " + steps[n].Summary()
	if steps[n].Operation == Start {
		text += " (at each geni_start)"
	}
	return text
}

// StepName returns the name of step i, such as "install 1 of 2". It counts only the steps of the
// same kind.
func StepName(steps []Step, i int) string {
	place, all := 0, 0
	for n := range steps {
		if steps[n].Kind != steps[i].Kind {
			continue
		}
		if all++; n <= i {
			place++
		}
	}
	return fmt.Sprintf("%s %d of %d", steps[i].Kind, place, all)
}

// IsStaged reports whether a step of the plan is in a later stage than 0 or has an operation.
func IsStaged(plan [][]Step) bool {
	return slices.ContainsFunc(plan, func(steps []Step) bool {
		return slices.ContainsFunc(steps, func(s Step) bool { return s.Stage > 0 || s.Operation != "" })
	})
}
