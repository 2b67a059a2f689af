package experimenter

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/client"
	"patchbay/am/testkit/program"
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
		got, ok := currentStep(v)
		if got.Step != tt.want || ok != (tt.want > 0) || ok && (got.node != "web" || got.of != len(tt.steps)) {
			t.Errorf("%s: step %d of %d, want %d", tt.name, got.Step, got.of, tt.want)
		}
		if got := canContinue([]client.Sliver{{Operational: "geni_ready"}, v}); got != tt.canContinue {
			t.Errorf("%s: the setup can be continued: %v, want %v", tt.name, got, tt.canContinue)
		}
	}
}

// TestStepTable checks the times and messages of steps.
func TestStepTable(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	steps := []nodeStep{
		{client.Service{Step: 1, Kind: "install", What: "data:text/plain,x", State: "done", Began: ago(time.Hour), Ended: ago(time.Hour - 90*time.Second)}, "web", 0},
		{client.Service{Step: 2, Kind: "execute", What: "make", State: "running", Began: ago(5 * time.Second), Output: "one\ntwo\x1b[2J\r\n"}, "web", 0},
		{client.Service{Step: 1, Kind: "execute", What: "ahead", State: "running", Began: ago(-time.Hour), Message: "m", Output: "x"}, "db", 2},
		{client.Service{Step: 2, Kind: "execute", Operation: "stop", State: "waiting"}, "db", 2},
		{client.Service{Step: 3, Kind: "execute", State: "failed", Exit: 7, Ended: now, Output: "x"}, "db", 0},
	}
	for wide, want := range map[bool]string{
		false: `
NODE  STEP    KIND     OPERATION  WHAT               STATE       TIME   MESSAGE
web   1       install             data:text/plain,…  done        1m30s
web   2       execute             make               running     5s     two�[2J
db    1 of 2  execute             ahead              running     0s     m
db    2 of 2  execute  stop                          waiting
db    3       execute                                failed (7)
`,
		true: `
NODE  STEP    KIND     OPERATION  WHAT               STATE       BEGAN                 TIME   MESSAGE
web   1       install             data:text/plain,…  done        2030-01-02T02:04:05Z  1m30s
web   2       execute             make               running     2030-01-02T03:04:00Z  5s     two�[2J
db    1 of 2  execute             ahead              running     2030-01-02T04:04:05Z  0s     m
db    2 of 2  execute  stop                          waiting
db    3       execute                                failed (7)
`,
	} {
		var b bytes.Buffer
		if err := stepTable(&b, steps, now, wide).Flush(""); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, "\n"+b.String()); d != "" {
			t.Errorf("wide %v (-want +got)\n%s", wide, d)
		}
	}
	steps[1].Stage = 1
	var b bytes.Buffer
	if err := stepTable(&b, steps[:2], now, false).Flush(""); err != nil {
		t.Fatal(err)
	}
	program.WantTexts(t, b.String(), "web   1     1      install", "web   2     2      execute")
}
