package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"patchbay/inventory/local/sysctl"
)

func tryKernel(context.Context, *bench) (string, *trouble) {
	limits, err := sysctl.Limits()
	if err != nil {
		return "", bad("ask the kernel", err, "look whether /proc is mounted")
	}
	return kernel(limits, os.Geteuid() == 0)
}

// meanings are the consequences of each exhausted limit.
var meanings = []struct{ part, words string }{
	{"kernel.", "processes: one node's can keep all others, and this host, from starting any"},
	{"file-max", "open files: one node's can keep all others, and who is not root here, from opening any"},
	{"bpf_jit_limit", "filters: one node's can keep all others, and who is not root here, from installing any; then no node starts"},
	{"p_mem", "memory of sockets: what some nodes leave unread cuts the connections of others, and of this host"},
	{"gc_thresh", "neighbours: some nodes of large LANs are not found"},
}

// kernel checks which limits "up" raises, and which it cannot.
func kernel(limits []sysctl.Limit, root bool) (string, *trouble) {
	var raised, low, remedies []string
	for _, l := range limits {
		switch {
		case l.Enough, errors.Is(l.Err, fs.ErrNotExist): // or it belongs to another owner
		case l.Err == nil || errors.Is(l.Err, fs.ErrPermission) && !root:
			words := l.Name
			if l.Now != "" { // it is readable
				words += " (is " + l.Now + ", and up makes it " + l.Want + ")"
			}
			raised = append(raised, words)
		default:
			words := l.Name + " is " + l.Now
			for _, m := range meanings {
				if strings.Contains(l.Name, m.part) {
					words += " (" + m.words + ")"
				}
			}
			low, remedies = append(low, words), append(remedies, l.Remedy)
		}
	}
	switch {
	case len(low) > 0:
		return "", &trouble{"the kernel has little for many nodes, and up cannot change that: " + strings.Join(low, "; "), "on the machine itself: " + strings.Join(remedies, "; ")}
	case len(raised) > 0:
		return "too low for many nodes, but up raises them, and clean sets them back: " + strings.Join(raised, ", "), nil
	}
	return "there is enough of processes, open files, filters, memory of sockets and neighbours", nil
}
