package provider

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode"

	"patchbay/am"
)

// Limits in bytes of the stored service reports. They are small because every change
// rewrites the sliver's whole record.
const (
	maxStepMessage = 300
	maxOutput      = 2 << 10  // output of one step
	maxOutputs     = 32 << 10 // outputs and messages of all steps of a node
)

// NewNode returns the attributes that the provider gets only when the sliver's node is created:
// the steps in order, and the granted features. The provider gets the steps again with each new
// AttrChangeSerial.
func NewNode(s *am.Sliver) Resource {
	r := Resource{}
	if !s.Desired.Present {
		return r
	}
	var steps, granted []string
	for _, x := range s.Setup {
		x.Again = false // the manager's rule
		steps = append(steps, encode(x))
	}
	for _, f := range s.Features {
		granted = append(granted, f.Feature+"="+f.Value)
	}
	if steps != nil {
		r[AttrSetup] = steps
	}
	if granted != nil {
		r[AttrGranted] = granted
	}
	return r
}

// services returns one step report for each item, with a zero report for an invalid one. Only
// ended steps keep their output, because the output of a running step changes with every poll.
// If all texts together exceed maxOutputs, the texts of failed steps have priority.
func services(items []string) []am.StepReport {
	if len(items) == 0 {
		return nil
	}
	all := make([]am.StepReport, len(items))
	for i, text := range items {
		var x struct {
			State   am.StepState `json:"state"`
			Exit    int          `json:"exit"`
			Message string       `json:"message"`
			Began   timestamp    `json:"began"`
			Ended   timestamp    `json:"ended"`
			Output  string       `json:"output"`
		}
		if json.Unmarshal([]byte(text), &x) != nil {
			continue
		}
		r := am.StepReport{
			State: x.State, Began: x.Began.Time, Ended: x.Ended.Time,
			Exit: min(max(x.Exit, math.MinInt32), math.MaxInt32), Message: clean(x.Message, maxStepMessage),
		}
		switch x.State {
		case am.StepDone, am.StepFailed:
			r.Output = lastLines(x.Output, maxOutput)
		case am.StepWaiting, am.StepRunning:
			r.Exit = 0
		default:
			continue
		}
		all[i] = r
	}
	left := maxOutputs
	for _, failed := range []bool{true, false} {
		for i := range all {
			if r := &all[i]; (r.State == am.StepFailed) == failed {
				if len(r.Message) > left {
					r.Message = ""
				}
				left -= len(r.Message)
				r.Output = lastLines(r.Output, left)
				left -= len(r.Output)
			}
		}
	}
	return all
}

// timestamp is a time in RFC 3339. Any other JSON value is the zero time.
type timestamp struct{ time.Time }

// UnmarshalJSON never fails, so that a wrong time does not invalidate the rest of a report. It
// drops times whose year in UTC cannot be written as JSON.
func (t *timestamp) UnmarshalJSON(text []byte) error {
	var read time.Time
	if read.UnmarshalJSON(text) == nil && read.UTC().Year() > 0 && read.UTC().Year() < 10_000 {
		t.Time = read.UTC()
	}
	return nil
}

// LiveOutputs returns the outputs of the running steps of a node, by the index of the step. They
// are not part of the observed state, because they change with every poll.
func LiveOutputs(r Resource) (outputs map[int]string) {
	for i, text := range r.List(AttrServices) {
		var x struct {
			State  am.StepState `json:"state"`
			Output string       `json:"output"`
		}
		if json.Unmarshal([]byte(text), &x) != nil || x.State != am.StepRunning || x.Output == "" {
			continue
		}
		if outputs == nil {
			outputs = map[int]string{}
		}
		outputs[i] = lastLines(x.Output, maxOutput)
	}
	return outputs
}

// lastLines returns the end of text, at most limit bytes, as printable lines. A carriage
// return ends a line; other control characters are removed.
func lastLines(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
		case r == '\r':
			return '\n'
		case unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF':
			return -1
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
	text = strings.TrimRight(text, "\n\t ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return text
}
