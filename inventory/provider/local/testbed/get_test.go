package testbed

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
)

// An answer of get is bounded: services get the space that accounts and interfaces leave, and an
// answer that is too long is refused before it is built completely.
func TestAnswersAreBounded(t *testing.T) {
	keys := strings.Repeat(fmt.Sprintf("%q,", strings.Repeat("<", 1000)), 40)
	users := []string{`{"login":"a","keys":[` + keys[:len(keys)-1] + `]}`}
	var steps []steprunner.Step
	for range steprunner.MaxSteps {
		steps = append(steps, steprunner.Step{Kind: setup.Execute, Report: setup.Report{State: setup.Done, Output: strings.Repeat(`"`, 60)}})
	}
	for _, tt := range []struct {
		rule  string
		nodes int
		steps []steprunner.Step
		fits  bool
	}{
		{"accounts", 60, nil, true}, {"and services", 60, steps, true}, {"more accounts than fit", 70, nil, false},
	} {
		tb := newTestbed(Options{})
		var names []string
		for i := range tt.nodes {
			nc := tb.newController(nodeName(i))
			nc.rec.Desired = desired{Power: provider.On, Users: users}
			if tt.steps != nil {
				nc.steps = nc.newRunner(steprunner.Journal{Steps: tt.steps})
			}
			tb.nodes[nc.id] = nc
			names = append(names, nc.id)
		}
		out, err := tb.get(json.RawMessage(toJSON(object{"names": names})))
		if !tt.fits {
			if err == nil || !strings.Contains(err.Error(), "request fewer at once") {
				t.Errorf("%s: %v", tt.rule, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", tt.rule, err)
		} else if n := len(toJSON(out)); n > maxAnswer {
			t.Errorf("%s: %d bytes", tt.rule, n)
		}
	}
}

func TestEncodedLengthIsThatOfJSON(t *testing.T) {
	for _, r := range []provider.Resource{
		(&desired{Power: provider.On, Hostname: "a\\b\"<", Users: []string{`{"login":"a"}`, "\x00\u2028"}}).attributes(),
		(&desired{Interfaces: largestInterfaces()}).attributes(),
	} {
		if got, is := encodedLength(r), len(toJSON(r)); got < is-10 || got > is+100 {
			t.Errorf("%d, and it has %d", got, is)
		}
	}
}
