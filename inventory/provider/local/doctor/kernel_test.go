package doctor

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"patchbay/inventory/provider/local/sysctl"
)

func TestKernelLimitsAreExplained(t *testing.T) {
	limit := func(name string, enough bool, err error) sysctl.Limit {
		return sysctl.Limit{Name: name, Now: "10", Want: "20", Enough: enough, Err: err, Remedy: "sysctl -w " + name + "='20'"}
	}
	for _, tt := range []struct {
		name   string
		limits []sysctl.Limit
		root   bool
		words  string
		remedy string // empty: none is needed
	}{
		{"enough", []sysctl.Limit{limit("fs.file-max", true, nil)}, true, "are high enough", ""},
		{"to be raised", []sysctl.Limit{limit("kernel.pid_max", false, nil)}, true, "kernel.pid_max (is 10, and up makes it 20)", ""},
		{"not to be read", []sysctl.Limit{{Name: "net.core.bpf_jit_limit", Want: "20", Err: fs.ErrPermission}}, false, "clean restores them: net.core.bpf_jit_limit", ""},
		{"without root", []sysctl.Limit{limit("kernel.pid_max", false, fs.ErrPermission)}, false, "up makes it 20", ""},
		{"of the machine around a container", []sysctl.Limit{limit("net.core.bpf_jit_limit", false, fs.ErrNotExist)}, true, "are high enough", ""},
		{"not to be changed", []sysctl.Limit{limit("kernel.pid_max", false, syscall.EROFS)}, true, "no other node can start one, nor can this host", "sysctl -w kernel.pid_max='20'"},
		{"two of them", []sysctl.Limit{limit("net.ipv4.tcp_mem", false, syscall.EROFS), limit("net.ipv4.neigh.default.gc_thresh3", false, syscall.EACCES)}, true, "cut connections", "gc_thresh3='20'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words, trouble := checkKernel(tt.limits, tt.root)
			remedy := ""
			if trouble != nil {
				words, remedy = trouble.Words, trouble.Remedy
			}
			if !strings.Contains(words, tt.words) || strings.Contains(words, "is ,") || (remedy == "") != (tt.remedy == "") || !strings.Contains(remedy, tt.remedy) {
				t.Errorf("words %q, remedy %q", words, remedy)
			}
		})
	}
}
