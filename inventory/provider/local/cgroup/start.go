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

// Start starts a process in the groups for PID 1 of id; the process is never outside of
// these groups. Version 2 supports that directly. In version 1, where threads have
// groups, a thread of this process moves to the groups, starts the process and ends.
// Moving the new process instead could take up to 15 ms, because the kernel
// synchronizes all processes.
func (t *Tree) Start(id string, c *exec.Cmd) error {
	done := make(chan error, 1)
	go onThread(func() { done <- t.start(id, c) })
	return <-done
}

// start starts c in the group of id. It must run on a thread that ends afterwards, since start may move that
// thread to the group.
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

// onThread calls f on a thread that ends after f. It never uses the main thread, which
// cannot end.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked, so the thread ends
	}
	done := make(chan struct{})
	go func() { defer close(done); onThread(f) }()
	<-done
	runtime.UnlockOSThread()
}

// Join moves a running process into the groups in which Start would start it.
func (t *Tree) Join(id string, pid int) error {
	for _, h := range t.all {
		if err := write(t.leaf(h, id), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cannot put process %d under limits: %w", pid, err)
		}
	}
	return nil
}

// Jobs returns files through which PID 1 of id moves processes to the groups of its jobs.
// PID 1 writes the pid of a process to each file. It must do so before the process has a
// second thread, because in version 1 the write moves only the first thread.
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
