package agent

import (
	"io"
	"strings"
	"testing"
)

func TestUnavailableCommandsExplainWhy(t *testing.T) {
	for name, c := range nodeCommands() {
		if name == SudoName || name == "geni-get" || name == "nproc" || name == "free" || name == "ping" || name == "patchbay-linktest" {
			continue
		}
		args := map[string][]string{"mount": {"-t", "tmpfs", "x", "/mnt"}, "systemctl": {"--now", "start", "ssh"}}[name]
		if err := c(args, io.Discard); err == nil || !strings.Contains(err.Error(), "by design") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFreePrintsLikeProcps(t *testing.T) {
	u := Usage{Memory: 512 << 20, MemoryUsed: 100 << 20, MemoryFiles: 60 << 20}
	for unit, want := range map[int64]string{
		1 << 10: `               total        used        free      shared  buff/cache   available
Mem:          524288       40960      421888           0       61440      483328
Swap:              0           0           0
`,
		0: `               total        used        free      shared  buff/cache   available
Mem:           512Mi        40Mi       412Mi          0B        60Mi       472Mi
Swap:             0B          0B          0B
`,
	} {
		var out strings.Builder
		if err := u.print(&out, unit); err != nil || out.String() != want {
			t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
		}
	}
	if got := inUnit(3<<20/2, 0) + inUnit(1<<40, 0); got != "1.5Mi1.0Ti" {
		t.Error(got)
	}
}
