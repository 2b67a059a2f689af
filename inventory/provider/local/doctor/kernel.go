package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"patchbay/inventory/provider/local/sysctl"
)

func tryKernel(context.Context, *resources) (string, *trouble) {
	limits, err := sysctl.Limits()
	if err != nil {
		return "", failedTo("read the kernel's limits", err, "check whether /proc is mounted")
	}
	return checkKernel(limits, os.Geteuid() == 0)
}

// meanings describe what happens when a limit is exhausted. The field part is a part of
// the limit's name.
var meanings = []struct{ part, words string }{
	{"kernel.", "processes: if one node uses them up, no other node can start one, nor can this host"},
	{"file-max", "open files: if one node uses them up, no other node can open one, nor can users of this host other than root"},
	{"bpf_jit_limit", "memory of filters: if one node uses it up, no other node can start, and users of this host other than root cannot install filters"},
	{"p_mem", "memory of sockets: unread data of some nodes can cut connections of others and of this host"},
	{"gc_thresh", "neighbours: in large LANs some nodes cannot be reached"},
}

// checkKernel reports the kernel's limits that are too low. It succeeds if the command "up" can raise all
// of them.
func checkKernel(limits []sysctl.Limit, root bool) (string, *trouble) {
	var raised, low, remedies []string
	for _, l := range limits {
		switch {
		case l.Enough, errors.Is(l.Err, fs.ErrNotExist): // in a container, some limits exist only on the outer host
		case l.Err == nil || errors.Is(l.Err, fs.ErrPermission) && !root:
			words := l.Name
			if l.Now != "" { // the limit is readable
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
		return "", &trouble{"the kernel's limits are too low for many nodes, and up cannot raise them: " + strings.Join(low, "; "), "on the machine itself: " + strings.Join(remedies, "; ")}
	case len(raised) > 0:
		return "too low for many nodes, but up raises them, and clean restores them: " + strings.Join(raised, ", "), nil
	}
	return "the limits of processes, open files, filters, memory of sockets and neighbours are high enough", nil
}
