package experiment

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
)

// Example is a request for two nodes on a LAN.
//
//go:embed lan.xml
var Example string

// StateWord returns the state of a sliver in one or two words. A node that is on, but whose setup cannot end by
// itself, is "setup failed".
func StateWord(v client.Sliver) string {
	switch {
	case v.Allocation == string(am.Allocated):
		return "reserved"
	case v.Allocation == string(am.Unallocated):
		return "being removed"
	}
	switch am.OperationalState(v.Operational) {
	case am.PendingAllocation:
		return "being created"
	case am.NotReady:
		return "stopped"
	case am.Configuring:
		if _, ok := CurrentStep(v); ok {
			return "setting up"
		}
		return "starting"
	case am.Ready:
		if CanContinue([]client.Sliver{v}) {
			return "setup failed"
		}
	case am.UpdatingUsers:
		return "updating"
	}
	return strings.ReplaceAll(strings.TrimPrefix(v.Operational, "geni_"), "_", " ")
}

// NodeStep is a step of a node's setup.
type NodeStep struct {
	client.Service
	Node string
	Of   int // the number of all steps of the node; 0 if it is not shown
}

// IsStep reports whether a step is in the state.
func IsStep(v client.Service, s am.StepState) bool { return v.State == string(s) }

// IsPlanned reports whether the step is done when the node is first switched on.
func IsPlanned(v client.Service) bool { return v.Operation != "stop" && v.Operation != "uninstall" }

// StepTime returns how long a step took, or how long it has been running; "" if the aggregate does
// not report it.
func StepTime(v client.Service, now time.Time) string {
	end := v.Ended
	if IsStep(v, am.StepRunning) {
		end = now
	}
	if v.Began.IsZero() || end.IsZero() {
		return ""
	}
	return display.Duration(max(0, end.Sub(v.Began)).Round(time.Second)) // the aggregate's clock may be ahead
}

// LastLine returns the last line of an output that has text.
func LastLine(text string) string {
	text = strings.TrimRight(text, "\r\n\t ")
	return text[strings.LastIndexAny(text, "\r\n")+1:]
}

// CurrentStep returns the last step that runs. Without one, it returns the first failed step, the
// first waiting one, or the last one that is done, of those that the node does when it is first
// switched on. It returns false for a node without such steps.
func CurrentStep(v client.Sliver) (NodeStep, bool) {
	planned := slices.DeleteFunc(slices.Clone(v.Services), func(x client.Service) bool { return !IsPlanned(x) })
	is := func(s am.StepState) func(client.Service) bool {
		return func(x client.Service) bool { return IsStep(x, s) }
	}
	if n := len(planned); n > 0 {
		step := planned[n-1]
		for _, s := range []am.StepState{am.StepWaiting, am.StepFailed} { // a failed step replaces a waiting one
			if i := slices.IndexFunc(planned, is(s)); i >= 0 {
				step = planned[i]
			}
		}
		for _, x := range v.Services {
			if IsStep(x, am.StepRunning) {
				step = x
			}
		}
		return NodeStep{step, v.ClientID, len(v.Services)}, true
	}
	return NodeStep{}, false
}

// Plans returns the texts about the stages that slivers wait for, or "".
func Plans(list []client.Sliver) string {
	var plans []string
	for _, v := range list {
		if v.Plan != "" {
			plans = append(plans, display.Line(v.Plan))
		}
	}
	slices.Sort(plans)
	return strings.Join(slices.Compact(plans), "; ")
}

// CanContinue reports whether the action patchbay_setup would do something: a step has failed, or
// steps of a later stage do not run any more.
func CanContinue(list []client.Sliver) bool {
	return slices.ContainsFunc(list, func(v client.Sliver) bool {
		isSettled := v.Operational == string(am.Ready) || v.Operational == string(am.Failed)
		return slices.ContainsFunc(v.Services, func(x client.Service) bool {
			return IsPlanned(x) && (IsStep(x, am.StepFailed) || IsStep(x, am.StepWaiting) && x.Stage > 0 && isSettled)
		})
	})
}

// FailedSteps returns texts such as "web, step 2: execute make". It leaves out steps of later events.
func FailedSteps(list []client.Sliver) (failed []string) {
	for _, v := range list {
		for _, x := range v.Services {
			if IsPlanned(x) && IsStep(x, am.StepFailed) {
				failed = append(failed, fmt.Sprintf("%s, step %d: %s %s", display.Line(v.ClientID), x.Step, display.Line(x.Kind), display.Line(ShortData(x.What))))
			}
		}
	}
	return failed
}

// CountSteps returns a text such as "steps: 5 of 7 done, 1 failed (web, step 2: execute make)".
func CountSteps(list []client.Sliver) string {
	all, done := 0, 0
	for _, v := range list {
		for _, x := range v.Services {
			if IsPlanned(x) {
				all++
			}
			if IsPlanned(x) && IsStep(x, am.StepDone) {
				done++
			}
		}
	}
	text := fmt.Sprintf("steps: %d of %d done", done, all)
	const most = 3
	if failed := FailedSteps(list); len(failed) > most {
		text += fmt.Sprintf(", %d failed (%s; and %d more)", len(failed), strings.Join(failed[:most], "; "), len(failed)-most)
	} else if len(failed) > 0 {
		text += fmt.Sprintf(", %d failed (%s)", len(failed), strings.Join(failed, "; "))
	}
	return text
}

// ShortData removes the content of a data URL.
func ShortData(url string) string {
	if head, _, ok := strings.Cut(url, ","); ok && strings.HasPrefix(head, "data:") {
		return head + ",…"
	}
	return url
}

// EarliestEnd returns the end of the lease that ends first.
func EarliestEnd(list []client.Sliver) (end time.Time) {
	for _, s := range list {
		if end.IsZero() || s.LeaseEnd().Before(end) {
			end = s.LeaseEnd()
		}
	}
	return end
}

// LatestEnd returns the end of the lease that ends last.
func LatestEnd(list []client.Sliver) (end time.Time) {
	for _, s := range list {
		if s.LeaseEnd().After(end) {
			end = s.LeaseEnd()
		}
	}
	return end
}

// limitInAnswer matches the latest possible time in a Patchbay server's answer to Renew.
var limitInAnswer = regexp.MustCompile(`the latest time is (\S+), (.+?)(?:; nothing was changed|$)`)

// LimitOf returns the latest possible end of leases that a refusal of Renew names, and what limits it.
func LimitOf(err *am.Error) (latest time.Time, reason string, ok bool) {
	found := limitInAnswer.FindStringSubmatch(err.Msg)
	if found == nil {
		return latest, "", false
	}
	latest, failed := display.ParseExpires(found[1])
	return latest, strings.TrimRight(found[2], "."), failed == nil
}
