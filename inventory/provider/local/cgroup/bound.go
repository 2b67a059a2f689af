package cgroup

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A part of the host's memory and processes is reserved for the host and for the programs
// that make nodes. All nodes together are limited to the rest. So when resources run out, a
// node loses a process, or cannot start one, before a program outside of nodes does.
const (
	memoryPart  = 8         // an eighth of the memory is reserved,
	memoryLeast = 512 << 20 // and at least this much, up to half of the memory
	pidsPart    = 4         // a fourth of the processes is reserved
)

// sharedLimits takes the host's memory in bytes.
func sharedLimits(memory, pids int64) Limits {
	back := min(max(memory/memoryPart, memoryLeast), memory/2)
	return Limits{Memory: memory - back, PIDs: int(pids - pids/pidsPart)}
}

// limitAll sets the limits of dir, the group of all nodes, in one hierarchy.
func limitAll(h hierarchy, dir string) error {
	memory, pids := hostMemory(), int64(math.MaxInt64)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		pids = min(pids, readLimit(file))
	}
	// In a container, the root group may have limits of its own.
	file := "/memory.limit_in_bytes"
	if h.v2 {
		file = "/memory.max"
	}
	memory, pids = min(memory, readLimit(h.path+file)), min(pids, readLimit(h.path+"/pids.max"))
	l := sharedLimits(memory, pids)
	if h.has("memory") {
		// The kernel refuses a limit below the present use (EBUSY). Nodes that an earlier
		// version has started may use more.
		if err := setMemory(h, dir, l.Memory); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	if h.has("pids") {
		return write(dir, "pids.max", strconv.Itoa(l.PIDs))
	}
	return nil
}

// SharedLimits returns the limits of all nodes of the host together, including those of
// other testbeds.
func (t *Tree) SharedLimits() (Limits, error) {
	m, err := t.limitAndUse("..")
	pids, e := number(t.dir(t.with("pids"), ".."), "pids.max")
	return Limits{Memory: m.Limit, PIDs: int(pids)}, errors.Join(err, e)
}

// hostMemory returns bytes, or the largest number if the memory is unknown.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return math.MaxInt64
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// readLimit returns the largest number if the file has no limit or is missing.
func readLimit(path string) int64 {
	b, err := os.ReadFile(path)
	if n, bad := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && bad == nil && n > 0 {
		return n
	}
	return math.MaxInt64
}
