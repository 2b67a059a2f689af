package testbed

import (
	"strings"
	"testing"

	"patchbay/inventory/provider/local/node"
)

func TestGrant(t *testing.T) {
	for _, tt := range []struct {
		rule, items string
		want        node.Limits
		err         string
	}{
		{"nothing", "", node.Limits{CPUs: 1, Memory: 512 << 20}, ""},
		{"more memory", "memory.size=2G", node.Limits{CPUs: 1, Memory: 2 << 30}, ""},
		{"more processors", "cpu.count=4,disk.0.os.name=linux", node.Limits{CPUs: 4, Memory: 512 << 20}, ""},
		{"never less than the type", "memory.size=1M", node.Limits{CPUs: 1, Memory: 512 << 20}, ""},
		{"no feature", "2G", node.Limits{}, `granted: "2G" is not feature=value`},
	} {
		l := node.Limits{CPUs: 1, Memory: 512 << 20}
		var items *[]string
		if tt.items != "" {
			list := strings.Split(tt.items, ",")
			items = &list
		}
		err := grant(&l, items)
		if err != nil || tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %s", tt.rule, err, tt.err)
			}
		} else if l != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, l, tt.want)
		}
	}
}
