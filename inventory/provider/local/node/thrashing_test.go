package node

import (
	"testing"

	"patchbay/inventory/provider/local/cgroup"
)

func TestIsThrashing(t *testing.T) {
	const mb = 1 << 20
	for what, tt := range map[string]struct {
		m    cgroup.Memory
		want bool
	}{
		"it waits for its programs, and there is no room": {cgroup.Memory{Limit: 192 * mb, Files: 2 * mb, Stalled: 0.4}, true},
		"it reads much, and gets on with it":              {cgroup.Memory{Limit: 192 * mb, Files: 2 * mb, Stalled: 0.3}, false},
		"there is room for files":                         {cgroup.Memory{Limit: 192 * mb, Files: 20 * mb, Stalled: 0.9}, false},
		"in a large node, too":                            {cgroup.Memory{Limit: 64 << 30, Files: 100 * mb, Stalled: 0.9}, false},
		"the kernel does not report stalls":               {cgroup.Memory{Limit: 192 * mb, Files: 2 * mb}, false},
	} {
		if got := isThrashing(tt.m); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
