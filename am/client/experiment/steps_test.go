package experiment

import (
	"testing"

	"patchbay/am/client"
)

// TestCurrentStep checks which step of a node is shown, and when its setup can be continued.
func TestCurrentStep(t *testing.T) {
	// Steps are STATE, or STATE STAGE OPERATION.
	step := func(state string, stage int, operation string) client.Service {
		return client.Service{State: state, Stage: stage, Operation: operation}
	}
	for _, tt := range []struct {
		name        string
		steps       []client.Service
		operational string
		want        int // 0: none
		canContinue bool
	}{
		{"no steps", nil, "ready", 0, false},
		{"all done", []client.Service{step("done", 0, ""), step("done", 1, ""), step("waiting", 0, "stop")}, "ready", 2, false},
		{"one runs", []client.Service{step("done", 0, ""), step("running", 0, ""), step("waiting", 1, "")}, "configuring", 2, false},
		{"a server in the background, and a later step", []client.Service{step("running", 0, ""), step("running", 1, ""), step("waiting", 2, "")}, "configuring", 2, false},
		{"waits for other nodes", []client.Service{step("done", 0, ""), step("waiting", 1, ""), step("waiting", 2, "")}, "configuring", 2, false},
		{"two failed", []client.Service{step("failed", 0, ""), step("failed", 0, ""), step("waiting", 1, "")}, "ready", 1, true},
		{"stopped by another node", []client.Service{step("done", 0, ""), step("waiting", 1, "")}, "ready", 2, true},
		{"a command of stage 0 waits for another one", []client.Service{step("running", 0, ""), step("waiting", 0, "")}, "ready", 1, false},
		{"the node failed", []client.Service{step("done", 0, ""), step("waiting", 1, "")}, "failed", 2, true},
		{"a stop failed", []client.Service{step("done", 0, ""), step("failed", 0, "stop")}, "notready", 1, false},
		{"a stop runs", []client.Service{step("done", 0, ""), step("running", 0, "stop")}, "stopping", 2, false},
		{"only for the end", []client.Service{step("waiting", 0, "uninstall")}, "ready", 0, false},
	} {
		for i := range tt.steps {
			tt.steps[i].Step = i + 1
		}
		v := client.Sliver{ClientID: "web", Operational: "geni_" + tt.operational, Services: tt.steps}
		got, ok := CurrentStep(v)
		if got.Step != tt.want || ok != (tt.want > 0) || ok && (got.Node != "web" || got.Of != len(tt.steps)) {
			t.Errorf("%s: step %d of %d, want %d", tt.name, got.Step, got.Of, tt.want)
		}
		if got := CanContinue([]client.Sliver{{Operational: "geni_ready"}, v}); got != tt.canContinue {
			t.Errorf("%s: the setup can be continued: %v, want %v", tt.name, got, tt.canContinue)
		}
	}
}

// TestStateWord checks the words for the states of nodes.
func TestStateWord(t *testing.T) {
	failed, waiting := []client.Service{{State: "failed"}}, []client.Service{{State: "waiting"}}
	for _, tt := range []struct {
		allocation, operational string
		steps                   []client.Service
		want                    string
	}{
		{"allocated", "pending_allocation", nil, "reserved"},
		{"provisioned", "pending_allocation", waiting, "being created"},
		{"provisioned", "notready", nil, "stopped"},
		{"provisioned", "configuring", nil, "starting"},
		{"provisioned", "configuring", waiting, "setting up"},
		{"provisioned", "ready", nil, "ready"},
		{"provisioned", "ready", failed, "setup failed"},
		{"provisioned", "ready", []client.Service{{State: "failed", Operation: "stop"}}, "ready"},
		{"provisioned", "updating_users", nil, "updating"},
		{"provisioned", "failed", failed, "failed"},
		{"unallocated", "pending_allocation", nil, "being removed"},
		{"provisioned", "of another aggregate", nil, "of another aggregate"},
	} {
		v := client.Sliver{Allocation: "geni_" + tt.allocation, Operational: "geni_" + tt.operational, Services: tt.steps}
		if got := StateWord(v); got != tt.want {
			t.Errorf("%s, %s, %d steps: %q, want %q", tt.allocation, tt.operational, len(tt.steps), got, tt.want)
		}
	}
}
