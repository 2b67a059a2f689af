package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/inventory/provider"
	setup "patchbay/rspec/step"
)

const (
	// patience is the maximal time by which commands of stage 0 delay a node's readiness.
	patience = 30 * time.Second
	// maxOperation is the maximal duration of all stop steps, and of all uninstall steps.
	maxOperation = time.Minute
)

// terminated is the exit status of a command that was ended by SIGTERM.
const terminated = 128 + 15

// activity describes a running step, by its kind.
var activity = map[string]string{
	setup.Install: "installing", setup.Execute: "executing",
	setup.UserData: "running cloud-init", setup.Disk: "creating a file system",
}

// step is one step of a node with its last run. A step that did not begin has a zero Began.
type step struct {
	// Step has only the kind, the stage, the operation and the background.
	setup.Step
	// Text identifies the step as requested; empty in states of earlier versions.
	Text string `json:"text,omitempty"`
	// FailRuns is the number of runs that will fail.
	FailRuns int `json:"fail_runs,omitempty"`
	// Began may be in the future.
	Began time.Time     `json:"began,omitzero"`
	Lasts time.Duration `json:"lasts,omitempty"`
	Exit  int           `json:"exit,omitempty"`
	Fails string        `json:"fails,omitempty"`
}

// parseSteps reads the items of the attribute "setup". Steps whose URL, command or script
// contains "fail" will fail; with "fail once" only in the first run. The error is a
// *provider.Error.
func parseSteps(items []string) ([]step, error) {
	all := make([]step, len(items))
	for i, item := range items {
		d := json.NewDecoder(strings.NewReader(item))
		d.DisallowUnknownFields()
		var x setup.Step
		if err := d.Decode(&x); err != nil {
			return nil, provider.Refuse(provider.Unsupported, "step %d of setup cannot be simulated: %v", i+1, err)
		}
		if activity[x.Kind] == "" {
			return nil, provider.Refuse(provider.Unsupported, "step %d of setup has the kind %.80q, which cannot be simulated", i+1, x.Kind)
		}
		if !slices.Contains([]string{"", setup.Start, setup.Stop, setup.Uninstall}, x.Operation) {
			return nil, provider.Refuse(provider.Unsupported, "step %d of setup has the operation %.80q, which cannot be simulated", i+1, x.Operation)
		}
		sum := sha256.Sum256([]byte(item))
		all[i].Text = hex.EncodeToString(sum[:8])
		all[i].Step = setup.Step{Kind: x.Kind, Stage: x.Stage, Operation: x.Operation, Background: x.Background}
		switch text := x.URL + x.Command + x.Script; {
		case strings.Contains(text, "fail once"):
			all[i].FailRuns = 1
		case strings.Contains(text, "fail"):
			all[i].FailRuns = math.MaxInt
		}
	}
	return all, nil
}

// changeSteps replaces the steps. Those that are the same keep their runs.
func (n *node) changeSteps(items []string) error {
	now, err := parseSteps(items)
	if err != nil {
		return err
	}
	text := func(list []step) (texts []string) {
		for i := range list {
			texts = append(texts, list[i].Text)
		}
		return texts
	}
	for i, was := range setup.Keep(text(n.Steps), text(now)) {
		if was >= 0 {
			now[i] = n.Steps[was]
		}
	}
	n.Steps = now
	return nil
}

// draw chooses the duration of a run of a step, and how it proceeds.
type draw func(kind string) (time.Duration, behaviour)

// begin starts a run at the given time, and reports whether the settings make it slow or fail.
func (x *step) begin(at time.Time, draw draw) (misbehaves bool) {
	lasts, b := draw(x.Kind)
	x.Began, x.Lasts, x.Exit, x.Fails = at, lasts, 0, ""
	if x.Background != nil && *x.Background {
		x.Lasts = 0
	}
	if b == fail || x.FailRuns > 0 {
		x.Exit, x.Fails = 1, "it ended with status 1; this failure is simulated"
		if x.Kind == setup.Install {
			x.Fails = "the archive cannot be fetched; this failure is simulated"
		}
	}
	x.FailRuns = max(0, x.FailRuns-1)
	return b == slow || b == fail
}

// forget makes a step waiting again.
func (x *step) forget() { x.Began, x.Lasts, x.Exit, x.Fails = time.Time{}, 0, 0, "" }

func (x *step) ended() time.Time { return x.Began.Add(x.Lasts) }

// endAt makes a running step fail at the given time.
func (x *step) endAt(at time.Time, why string) {
	x.Lasts, x.Exit, x.Fails = at.Sub(x.Began), terminated, why
}

// convertSteps sets the times of steps that release 0.1 wrote.
func (n *node) convertSteps() {
	for i := range n.Steps {
		if !n.StepsAt.IsZero() {
			n.Steps[i].Began = n.StepsAt
			n.StepsAt = n.Steps[i].ended()
		}
	}
	n.StepsAt = time.Time{}
}

// stage returns the attribute "setup_stage" as a number. It is 0 for a manager that does not set
// the attribute.
func (n *node) stage() int {
	stage, _ := strconv.Atoi(n.SetupStage) // checked by next
	return stage
}

// interrupt makes steps of the plan fail that run at the given time, and makes steps wait that
// would begin later. It concerns the stages above the given one.
func (n *node) interrupt(at time.Time, above int, why string) {
	for i := range n.Steps {
		switch x := &n.Steps[i]; {
		case !x.InPlan() || x.Stage <= above || x.Began.IsZero() || !x.ended().After(at):
		case x.Began.Before(at):
			x.endAt(at, why)
		default:
			x.forget()
		}
	}
}

// repeat makes steps wait again that the next call of runPlan does once more: if the stage has
// grown, failed steps of the stages above the previous one; and at each start, steps of that
// operation.
func (n *node) repeat(previous *node, op operation, now time.Time) {
	for i := range n.Steps {
		x := &n.Steps[i]
		again := x.Operation == setup.Start && op == opStart ||
			x.InPlan() && x.Fails != "" && !x.ended().After(now) && x.Stage > previous.stage()
		if again && x.Stage <= n.stage() {
			x.forget()
		}
	}
}

// runPlan starts the waiting steps of the permitted stages, one after the other. The first one
// begins at n.ReadyAt, even if a step of an earlier stage still runs. In a later stage than 0
// it starts no step after one that fails.
func (n *node) runPlan(draw draw) (misbehaves bool) {
	if n.Power != provider.On || n.Fails != "" || n.Doing == opRemove {
		return false
	}
	at, failed := n.ReadyAt, map[int]bool{}
	for i := range n.Steps {
		x := &n.Steps[i]
		if !x.InPlan() {
			continue
		}
		if x.Began.IsZero() && x.Stage <= n.stage() && !failed[x.Stage] {
			misbehaves = x.begin(at, draw) || misbehaves
			at = x.ended()
		}
		failed[x.Stage] = failed[x.Stage] || x.Stage > 0 && x.Fails != ""
	}
	return misbehaves
}

// runOperation runs the steps of an operation, Stop or Uninstall, and returns when they end.
func (n *node) runOperation(operation string, begins time.Time, draw draw) (ends time.Time, misbehaves bool) {
	at, latest := begins, begins.Add(maxOperation)
	for i := range n.Steps {
		x := &n.Steps[i]
		if x.Operation != operation || x.Stage > n.stage() || !at.Before(latest) {
			continue
		}
		misbehaves = x.begin(at, draw) || misbehaves
		if x.ended().After(latest) {
			x.endAt(latest, "it took longer than a minute")
		}
		at = x.ended()
	}
	return at, misbehaves
}

// settledAt returns when the node is ready: when its operation and the steps that delay it have
// ended.
func (n *node) settledAt() time.Time {
	at := n.ReadyAt
	var latest time.Time // to which commands of stage 0 delay the node
	for i := range n.Steps {
		x := &n.Steps[i]
		if !x.InPlan() || x.Began.IsZero() {
			continue
		}
		end := x.ended()
		if !x.MustEnd() {
			if latest.IsZero() {
				latest = x.Began.Add(patience)
			}
			end = earlier(end, latest)
		}
		if end.After(at) {
			at = end
		}
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// report is one item of the attribute "services".
type report struct {
	Kind    string    `json:"kind"`
	State   string    `json:"state"`
	Exit    int       `json:"exit"`
	Message string    `json:"message,omitempty"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Output  string    `json:"output,omitempty"`
}

// services returns the reports on the steps. The result doing is the activity of the running
// step, or "".
func (n *node) services(now time.Time) (items []string, doing string) {
	for _, x := range n.Steps {
		r := report{Kind: x.Kind, State: "waiting"}
		if !x.Began.IsZero() && !now.Before(x.Began) {
			r.State, r.Began = "running", x.Began.UTC().Truncate(time.Millisecond)
		}
		switch {
		case r.State == "waiting":
		case now.Before(x.ended()):
			doing = activity[x.Kind]
		case x.Fails != "":
			r.State, r.Exit, r.Message = "failed", x.Exit, x.Fails
		default:
			r.State, r.Output = "done", "nothing was done: this node is simulated\n"
		}
		if r.State == "done" || r.State == "failed" {
			r.Ended = x.ended().UTC().Truncate(time.Millisecond)
		}
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // only text, numbers and times of the clock
		}
		items = append(items, string(b))
	}
	return items, doing
}
