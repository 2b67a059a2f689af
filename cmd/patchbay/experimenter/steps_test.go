package experimenter

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/testkit/program"
)

// TestStepTable checks the times and messages of steps.
func TestStepTable(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	steps := []experiment.NodeStep{
		{Service: client.Service{Step: 1, Kind: "install", What: "data:text/plain,x", State: "done", Began: ago(time.Hour), Ended: ago(time.Hour - 90*time.Second)}, Node: "web"},
		{Service: client.Service{Step: 2, Kind: "execute", What: "make", State: "running", Began: ago(5 * time.Second), Output: "one\ntwo\x1b[2J\r\n"}, Node: "web"},
		{Service: client.Service{Step: 1, Kind: "execute", What: "ahead", State: "running", Began: ago(-time.Hour), Message: "m", Output: "x"}, Node: "db", Of: 2},
		{Service: client.Service{Step: 2, Kind: "execute", Operation: "stop", State: "waiting"}, Node: "db", Of: 2},
		{Service: client.Service{Step: 3, Kind: "execute", State: "failed", Exit: 7, Ended: now, Output: "x"}, Node: "db"},
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
