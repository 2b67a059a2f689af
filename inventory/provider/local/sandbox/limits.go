package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const unlimited = unix.RLIM_INFINITY

type limit struct {
	name       string
	resource   int
	soft, hard uint64
}

// limits returns the resource limits of all processes of nodes. They replace the limits of
// the shell that started the testbed. The limits on memory, processes, disk and processor
// are not here: the cgroups and the disk of a node set them.
func limits() []limit {
	return []limit{
		{"core", unix.RLIMIT_CORE, 0, 0}, // core dumps could go to a program of the host
		{"nofile", unix.RLIMIT_NOFILE, 1024, 512 * 1024},
		{"memlock", unix.RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
		{"stack", unix.RLIMIT_STACK, 8 << 20, unlimited},
		{"msgqueue", unix.RLIMIT_MSGQUEUE, 819200, 819200},
		{"nice", unix.RLIMIT_NICE, 0, 0},
		{"rtprio", unix.RLIMIT_RTPRIO, 0, 0},
		{"rttime", unix.RLIMIT_RTTIME, unlimited, unlimited},
		{"nproc", unix.RLIMIT_NPROC, unlimited, unlimited},
		{"cpu", unix.RLIMIT_CPU, unlimited, unlimited},
		{"fsize", unix.RLIMIT_FSIZE, unlimited, unlimited},
		{"data", unix.RLIMIT_DATA, unlimited, unlimited},
		{"as", unix.RLIMIT_AS, unlimited, unlimited},
		{"rss", unix.RLIMIT_RSS, unlimited, unlimited},
		{"locks", unix.RLIMIT_LOCKS, unlimited, unlimited},
	}
}

// SetLimits sets the resource limits of nodes for this process and its children. If this
// process has a lower hard limit and may not raise it, that limit stays.
func SetLimits() error {
	for _, l := range limits() {
		err := unix.Prlimit(0, l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}, nil)
		if err == unix.EPERM { // above the hard limit, without the right to raise it
			var now unix.Rlimit
			if err = unix.Prlimit(0, l.resource, nil, &now); err == nil {
				hard := min(l.hard, now.Max)
				err = unix.Prlimit(0, l.resource, &unix.Rlimit{Cur: min(l.soft, hard), Max: hard}, nil)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot set the resource limit %s: %w", l.name, err)
		}
	}
	return nil
}
