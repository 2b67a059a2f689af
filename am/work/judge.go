package work

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

type verdict int

const (
	wait        verdict = iota // the resource is changing, or one get did not find it: get again
	needSet                    // the resource differs from the desired state: set
	setAccepted                // a set has been accepted: get
	done                       // the resource is in the desired state
	gone                       // the resource is removed
	retry                      // the task failed, and may succeed later
	giveUp                     // the task failed permanently
	lost                       // the resource existed, and has vanished or failed
	unavailable                // the provider cannot be called now: text says why
)

type outcome struct {
	verdict  verdict
	text     string // the error, or the missing parts of a done sliver, for the experimenter
	is       provider.Resource
	observed am.Observed
	vanished bool           // the get did not find the resource, and a second get must confirm that
	keep     bool           // the resource stays, although it has failed
	open     bool           // the resource is ready, but its sliver waits for steps of its plan
	runs     bool           // and steps of its own run
	live     map[int]string // outputs of the running steps, by index
	delay    time.Duration  // the wait before a retry
}

// item is one sliver in a call of a provider. Its fields are copies from the job at the start
// of the call.
type item struct {
	job       *job // used by the loop only, not by the call
	sliver    am.Sliver
	task      am.Task
	component string
	port      func(urn.URN) string // as Config.Interfaces
	strict    bool                 // as Config.ServicesMustSucceed
	is        provider.Resource
	asked     bool
	missing   bool
	since     time.Time
}

func (i *item) name() string { return i.sliver.URN.Name }

func (i *item) removes() bool { return i.task.Goal.Removes() }

const (
	vanishedText = "its provider no longer has it: it was removed or lost there; delete it and allocate it again"
	failedText   = "its provider reports that it failed"
)

// judge returns the outcome of a get. limit is the longest time that a resource may be changing.
func judge(p Provider, i *item, res provider.Result, limit time.Duration) outcome {
	if i.removes() && res.LeftOut && !i.missing {
		// Another sliver may get the component as soon as the removal is confirmed. A single
		// answer that leaves out the resource does not confirm the removal, so wait for a
		// second one.
		return outcome{verdict: wait, observed: i.sliver.Observed, vanished: true}
	}
	if res.Err != nil {
		return i.errorOutcome(res.Err)
	}
	r := res.Resource
	want := wanted(p, i)
	o := outcome{is: r, observed: observed(&i.sliver, r), live: provider.LiveOutputs(r)}
	if n := len(want.List(provider.AttrInterfaces)); n > provider.MaxItems {
		o.verdict, o.text = giveUp, fmt.Sprintf("it has %d interfaces, and a node can have %d; request fewer on each node", n, provider.MaxItems)
		return o
	}
	state := cmp.Or(r.Text(provider.AttrState), provider.StateReady)
	changing := state == provider.StateChanging || state == provider.StatePending
	diff := provider.Diff(r, want)
	if provider.Gone(r) && i.judgeGone(state, &o) {
		return o
	}
	same := len(diff) == 0
	switch {
	case same && i.removes() && !changing:
		o.verdict = gone // this provider can only switch nodes off
	case same && (state == provider.StateReady || changing) && i.waitForSteps(p, &o):
	case same && state == provider.StateReady:
		i.finishReady(p, &o)
	case !same && !i.asked:
		o.verdict = needSet
	case state == provider.StateFailed:
		o.verdict, o.text = i.failureVerdict(), cmp.Or(o.observed.Message, failedText)
	case changing:
		i.stillChanging(&o, limit)
	default:
		o.verdict, o.text = retry, "its provider accepted a change that has not happened: "+strings.Join(slices.Sorted(maps.Keys(diff)), ", ")
	}
	return o
}

// judgeGone sets the verdict for a resource that does not exist. It returns false if it must be
// created.
func (i *item) judgeGone(state string, o *outcome) bool {
	switch {
	case i.removes() && state != provider.StateChanging:
		o.verdict = gone
		return true
	case i.task.Goal != am.GoalMake && !i.removes():
		// The resource existed before. Creating it again would hide that its data are lost.
		// Require a second answer.
		o.verdict, o.vanished = wait, true
		if i.missing {
			o.verdict, o.text = lost, vanishedText
		}
		return true
	}
	return false
}

// waitForSteps sets the verdict wait and returns true if the sliver, as observed now, waits for steps
// of its plan. The provider says ready between two stages.
func (i *item) waitForSteps(p Provider, o *outcome) bool {
	s := i.sliver
	s.Observed = o.observed
	if !p.Reports(provider.AttrSetupStage) || !s.SetupOpen() {
		return false
	}
	o.verdict, o.open, o.runs = wait, true, s.StageRuns()
	return true
}

// finishReady sets the verdict done, unless a service has failed and services must succeed.
func (i *item) finishReady(p Provider, o *outcome) {
	s := i.sliver
	s.Observed = o.observed
	o.verdict, o.text = done, missingParts(p, &s)
	if failed := s.StepFailure(); i.strict && failed != "" {
		o.verdict, o.text, o.keep = i.failureVerdict(), failed, true
	}
}

// stillChanging sets the verdict wait. If the resource has been changing for longer than limit, the
// verdict is retry for a removal, and giveUp otherwise.
func (i *item) stillChanging(o *outcome, limit time.Duration) {
	o.verdict = wait
	if i.since.IsZero() || time.Since(i.since) <= limit {
		return
	}
	o.verdict, o.text = giveUp, fmt.Sprintf("it is still changing after %v", limit)
	if i.removes() {
		o.verdict = retry
	}
}

// failureVerdict is not for a provider's error about a request, see errorOutcome. It returns retry
// for a removal. For GoalUsers it returns lost, because giveUp would leave the sliver ready.
func (i *item) failureVerdict() verdict {
	switch {
	case i.removes():
		return retry
	case i.task.Goal == am.GoalUsers:
		return lost
	}
	return giveUp
}

func (i *item) errorOutcome(e *provider.Error) outcome {
	o := outcome{verdict: giveUp, text: e.Error(), observed: i.sliver.Observed}
	switch {
	case i.removes() && e.Kind == provider.Unknown:
		o.verdict = gone
	case i.removes() || e.Temporary:
		o.verdict = retry
	}
	return o
}
