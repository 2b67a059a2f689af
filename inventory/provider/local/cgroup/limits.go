package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits are the limits of a group.
type Limits struct {
	CPUs   float64 // processors; 0 means no limit
	Memory int64   // bytes, with swap included; 0 means no limit
	PIDs   int     // processes and threads; 0 means no limit
	// Weight is the group's share of a busy processor, as a multiple of the default
	// share; 0 means 1.
	Weight int
}

// Usage is a group's present use of resources.
type Usage struct {
	Memory int64 // bytes
	Files  int64 // bytes of Memory that are cached files
	PIDs   int
}

// period is the CPU quota period in microseconds.
const period = 100_000

// Version 1 counts the memory of sockets separately. There, the limit for sockets is
// 1/socketShare of the group's memory limit, in addition to that limit.
const socketShare = 4

// reserve returns how many of a node's processes are reserved for PID 1, which has up
// to ten threads, and for logins. Jobs cannot use them.
func reserve(pids int) int { return min(max(pids/8, 16), 32, pids/2) }

// Update sets the limits of the groups of id.
func (t *Tree) Update(id string, l Limits) error {
	cpu, memory := t.with("cpu"), t.with("memory")
	dir := t.dir(cpu, id)
	if err := errors.Join(setCPU(cpu, dir, l.CPUs), setWeight(cpu, dir, max(l.Weight, 1))); err != nil {
		return err
	}
	if err := setMemory(memory, t.dir(memory, id), l.Memory); err != nil {
		return err
	}
	all, jobs := "max", "max"
	if l.PIDs > 0 {
		all, jobs = strconv.Itoa(l.PIDs), strconv.Itoa(l.PIDs-reserve(l.PIDs))
	}
	dir = t.dir(t.with("pids"), id)
	return errors.Join(write(dir, "pids.max", all), write(filepath.Join(dir, jobsLeaf), "pids.max", jobs))
}

// setCPU limits the processor time of a group; 0 means no limit.
func setCPU(h hierarchy, dir string, cpus float64) error {
	quota := int64(cpus * period)
	if cpus > 0 {
		quota = max(quota, 1000) // the least that the kernel accepts
	}
	switch {
	case h.v2 && quota == 0:
		return write(dir, "cpu.max", "max "+strconv.Itoa(period))
	case h.v2:
		return write(dir, "cpu.max", strconv.FormatInt(quota, 10)+" "+strconv.Itoa(period))
	case quota == 0:
		return write(dir, "cpu.cfs_quota_us", "-1")
	}
	if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	return write(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// setWeight takes a multiple of the default weight.
func setWeight(h hierarchy, dir string, times int) error {
	if h.v2 {
		return write(dir, "cpu.weight", strconv.Itoa(100*times))
	}
	return write(dir, "cpu.shares", strconv.Itoa(1024*times))
}

// setMemory limits the memory of a group, with swap; 0 bytes mean no limit.
func setMemory(h hierarchy, dir string, bytes int64) error {
	if h.v2 {
		most, swap := "max", "max"
		if bytes > 0 {
			most, swap = strconv.FormatInt(bytes, 10), "0"
		}
		if err := write(dir, "memory.max", most); err != nil {
			return err
		}
		// The OOM killer ends one whole process, never the whole node.
		return errors.Join(ignoreMissing(write(dir, "memory.swap.max", swap)), write(dir, "memory.oom.group", "0"))
	}
	most, sockets := "-1", "-1"
	if bytes > 0 {
		most, sockets = strconv.FormatInt(bytes, 10), strconv.FormatInt(bytes/socketShare, 10)
	}
	// In version 1, this file limits the memory of sockets of all protocols, which the
	// other limits do not include.
	if err := ignoreMissing(write(dir, "memory.kmem.tcp.limit_in_bytes", sockets)); err != nil {
		return err
	}
	// The kernel refuses a limit with swap below the limit without swap, so the order
	// of writing depends on the old values.
	const ram, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if write(dir, ram, most) == nil {
		return ignoreMissing(write(dir, both, most))
	}
	if err := ignoreMissing(write(dir, both, most)); err != nil {
		return err
	}
	return write(dir, ram, most)
}

// ignoreMissing returns nil if the kernel was built without the file.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Usage returns the present use of the groups of id.
func (t *Tree) Usage(id string) (Usage, error) {
	m, err := t.Memory(id)
	pids, e := number(t.dir(t.with("pids"), id), "pids.current")
	return Usage{Memory: m.Used, Files: m.Files, PIDs: int(pids)}, errors.Join(err, e)
}

func number(dir, file string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}
