package step

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutline(t *testing.T) {
	get := Step{Kind: Install, URL: "http://h/db.tar"}
	run := func(stage int, operation string) Step {
		return Step{Kind: Execute, Name: "run", Stage: stage, Operation: operation}
	}
	many := make([][]Step, 7)
	for i := range many {
		many[i] = []Step{run(1, "")}
	}
	for _, tt := range []struct {
		rule   string
		plan   [][]Step
		staged bool
		want   []string
	}{
		{"nothing", [][]Step{nil, {}}, false, nil},
		{"one stage", [][]Step{{get, get}}, false, []string{`stage 1: "a": install 1 of 2, http://h/db.tar; install 2 of 2, http://h/db.tar`}},
		{"stages, and nodes with the same steps", [][]Step{{run(2, "")}, {get}, {run(2, "")}}, true, []string{`stage 1: "b": install 1 of 1, http://h/db.tar`, `stage 2: "a", "c": execute 1 of 1, run`}},
		{"different steps of a stage", [][]Step{{run(1, "")}, {{Kind: Disk, InstallPath: "/data", Stage: 1}}}, true, []string{`stage 1: "a": execute 1 of 1, run`, `stage 1: "b": disk 1 of 1, /data`}},
		{"events", [][]Step{{run(0, Start), run(3, Stop), run(0, Uninstall)}}, true,
			[]string{`stage 1: "a": execute 1 of 3, run (at each geni_start)`, `on geni_stop: "a": execute 2 of 3, run`, `on Delete: "a": execute 3 of 3, run`}},
		{"many nodes", many, true, []string{`stage 1: "a", "b", "c", "d", "e", and 2 more: execute 1 of 1, run`}},
	} {
		if d := cmp.Diff(tt.want, Outline(strings.Split("abcdefg", ""), tt.plan)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, d)
		}
		if got := IsStaged(tt.plan); got != tt.staged {
			t.Errorf("%s: staged is %v", tt.rule, got)
		}
	}
	long := make([]Step, 10)
	for i := range long {
		long[i] = run(0, "")
	}
	if got := Outline([]string{"a"}, [][]Step{long}); len(got) != 1 || !strings.HasSuffix(got[0], "execute 8 of 10, run; and 2 more") {
		t.Errorf("many steps: %v", got)
	}
}
