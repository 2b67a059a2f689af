package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a process in the groups of PID 1 of id: it is never outside of
// them. In a hierarchy of version 2 the kernel can do that; in those of version
// 1, where threads have groups of their own, a thread goes there first, starts
// the process and ends. That spares the wait, up to 15 ms, for which the kernel
// lets all of the host's processes know that one of them moves.
func (t *Tree) Start(id string, c *exec.Cmd) error {
	done := make(chan error, 1)
	go onThread(func() { done <- t.start(id, c) })
	return <-done
}

func (t *Tree) start(id string, c *exec.Cmd) error {
	for _, h := range t.all {
		if !h.v2 {
			if err := write(t.leaf(h, id), "tasks", "0"); err != nil {
				return fmt.Errorf("cannot put a process under limits: %w", err)
			}
			continue
		}
		group, err := os.Open(t.leaf(h, id))
		if err != nil {
			return err
		}
		defer group.Close()
		if c.SysProcAttr == nil {
			c.SysProcAttr = new(syscall.SysProcAttr)
		}
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	return c.Start()
}

// onThread calls f on a thread that ends with it. The main thread cannot end,
// so it is not taken.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked: the thread ends
	}
	done := make(chan struct{})
	go func() { defer close(done); onThread(f) }()
	<-done
	runtime.UnlockOSThread()
}

// Join puts a process that runs already into the groups of PID 1 of id.
func (t *Tree) Join(id string, pid int) error {
	for _, h := range t.all {
		if err := write(t.leaf(h, id), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cannot put process %d under limits: %w", pid, err)
		}
	}
	return nil
}

// Jobs are files through which PID 1 of id moves a process to where its jobs
// are, by writing its id to each before it has a second thread. Those of version
// 1 are of threads: a thread that writes 0 is moved itself, which is quick, and
// what it starts is born there.
func (t *Tree) Jobs(id string) ([]*os.File, error) {
	var files []*os.File
	for _, h := range t.all {
		if len(h.leafControllers()) == 0 {
			continue
		}
		name := "tasks"
		if h.v2 {
			name = "cgroup.procs"
		}
		f, err := os.OpenFile(filepath.Join(t.dir(h, id, jobsLeaf), name), os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
