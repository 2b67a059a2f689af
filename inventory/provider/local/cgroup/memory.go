package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is the memory state of a group.
type Memory struct {
	Limit, Used int64 // bytes; a limit of 0 means none
	Files       int64 // bytes of Used that are cached files
	// Stalled is the fraction of the last ten seconds in which all processes waited for
	// memory, 0 to 1. It is 0 if the kernel does not report it (no PSI, or no version 2).
	Stalled float64
}

// IsNearlyFull reports whether id uses at least 97 % of its memory limit. Cached files
// count, so this is normal for many groups. IsNearlyFull costs less than Memory, so it can
// be called first.
func (t *Tree) IsNearlyFull(id string) (bool, error) {
	m, err := t.limitAndUse(id)
	return m.Limit > 0 && m.Used >= m.Limit-m.Limit/32, err
}

// limitAndUse returns a Memory with only the fields Limit and Used.
func (t *Tree) limitAndUse(id string) (Memory, error) {
	h := t.with("memory")
	dir := t.dir(h, id)
	if !h.v2 {
		used, err := number(dir, "memory.usage_in_bytes")
		limit, e := number(dir, "memory.limit_in_bytes")
		if limit >= 1<<62 { // the kernel's value for no limit
			limit = 0
		}
		return Memory{Limit: limit, Used: used}, errors.Join(err, e)
	}
	used, err := number(dir, "memory.current")
	text, e := os.ReadFile(filepath.Join(dir, "memory.max"))
	limit, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" gives 0, which means none
	return Memory{Limit: limit, Used: used}, errors.Join(err, e)
}

// Memory returns the memory state of id.
func (t *Tree) Memory(id string) (Memory, error) {
	m, err := t.limitAndUse(id)
	if err != nil {
		return Memory{}, err
	}
	h := t.with("memory")
	stat, err := numbers(t.dir(h, id), "memory.stat")
	if h.v2 {
		m.Files = stat["file"] - stat["shmem"]
	} else {
		m.Files = stat["total_cache"] - stat["total_shmem"]
	}
	m.Stalled = t.stalled(id)
	return m, err
}

// stalled returns the share of the last ten seconds in which all processes of id waited for memory, 0 to 1. It
// reads the hierarchy of version 2, which has the value even if a hierarchy of version 1 has the memory
// controller.
func (t *Tree) stalled(id string) float64 {
	for _, h := range t.all {
		if !h.v2 {
			continue
		}
		b, _ := os.ReadFile(filepath.Join(t.dir(h, id), "memory.pressure"))
		for line := range strings.Lines(string(b)) {
			var percent float64
			if n, _ := fmt.Sscanf(line, "full avg10=%f", &percent); n == 1 {
				return percent / 100
			}
		}
	}
	return 0
}

func numbers(dir, file string) (map[string]int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	found := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, bad := strconv.ParseInt(text, 10, 64); bad == nil {
			found[name] = n
		}
	}
	return found, err
}

// OOMKills returns how many processes of id the kernel has killed for lack of memory
// since the groups were created.
func (t *Tree) OOMKills(id string) (int64, error) {
	h := t.with("memory")
	if h.v2 {
		events, err := numbers(t.dir(h, id), "memory.events")
		return events["oom_kill"], err
	}
	var all int64
	for _, leaf := range []string{"", initLeaf, jobsLeaf} { // each has its own counter
		state, err := numbers(t.dir(h, id, leaf), "memory.oom_control")
		if err != nil && (leaf == "" || !errors.Is(err, fs.ErrNotExist)) {
			return 0, err
		}
		all += state["oom_kill"]
	}
	return all, nil
}

// KillLargest kills the job of id that uses the most memory, and returns its pid and name.
// PID 1 is no job. The error wraps fs.ErrNotExist if there is no job.
func (t *Tree) KillLargest(id string) (pid int, name string, err error) {
	procs := filepath.Join(t.dir(t.with("pids"), id, jobsLeaf), "cgroup.procs")
	pids, err := readPIDs(procs)
	var most int64
	for _, p := range pids {
		if n := resident(p); n > most {
			pid, most = p, n
		}
	}
	if err != nil || pid == 0 {
		return 0, "", errors.Join(err, fs.ErrNotExist)
	}
	// The pid may have been reused: open a pidfd and check again.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, "", fmt.Errorf("cannot open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if pids, err = readPIDs(procs); err != nil || !slices.Contains(pids, pid) {
		return 0, "", errors.Join(err, fs.ErrNotExist)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return 0, "", fmt.Errorf("cannot kill process %d: %w", pid, err)
	}
	return pid, strings.TrimSpace(string(b)), nil
}

// resident returns the resident pages of a process.
func resident(pid int) int64 {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if words := strings.Fields(string(b)); len(words) > 1 {
		n, _ := strconv.ParseInt(words[1], 10, 64)
		return n
	}
	return 0
}
