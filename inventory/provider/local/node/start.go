package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/cgroup"
)

// Files of a node's folder.
const (
	socketFile = "agent.sock"
	logFile    = "log"
)

// startTimeout bounds a start, killTimeout the end of a node.
const (
	startTimeout = 60 * time.Second
	killTimeout  = 20 * time.Second
)

// maxLog is the size from which on a log is truncated.
const maxLog = 256 << 10

// Start starts a prepared node that does not run. If it fails, nothing of the node runs.
func (h *Host) Start(ctx context.Context, s Spec) (Running, error) {
	if err := s.check(); err != nil {
		return Running{}, err
	}
	defer h.locks.lock(s.ID)()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	disk, err := h.nodes.OpenFile(filepath.Join(s.ID, diskFile), os.O_RDWR, 0)
	if err != nil {
		return Running{}, fmt.Errorf("node %s is not prepared: %w", s.ID, err)
	}
	disk.Close() // the kernel grants a lease only on a file that is open once
	if pids, err := h.tree.PIDs(s.ID); err != nil || len(pids) > 0 {
		return Running{}, errors.Join(fmt.Errorf("node %s has %d processes already: kill it first", s.ID, len(pids)), err)
	}
	if err := h.tree.Remove(ctx, s.ID); err != nil { // empty cgroups of an interrupted start
		return Running{}, err
	}
	running, err := h.start(ctx, s)
	if err != nil {
		err = fmt.Errorf("cannot start node %s: %w", s.ID, err)
		return Running{}, errors.Join(err, h.kill(context.WithoutCancel(ctx), s.ID), reapNode(s.Base))
	}
	return running, nil
}

// start creates the node's cgroups, runs the stages, records PID 1, and checks that the agent answers. The disk
// is repaired if the host was rebooted while the node ran.
func (h *Host) start(ctx context.Context, s Spec) (r Running, err error) {
	if err := h.tree.Make(s.ID, cgroup.Limits{CPUs: s.Limits.CPUs, Memory: s.Limits.Memory, PIDs: s.Limits.PIDs}); err != nil {
		return r, err
	}
	last, err := h.readRecord(s.ID)
	first := errors.Is(err, fs.ErrNotExist) // not after other errors: if the record is damaged, the disk may be, too
	input := stageInput{
		Spec: s, Disk: filepath.Join(h.Dir(s.ID), diskFile),
		Repair:   !first && last.Boot != h.boot,
		Assembly: filepath.Join(h.State, assemblyFolder),
		Program:  filepath.Join(h.State, programFolder),
	}
	for i := range s.Disks {
		input.Data = append(input.Data, filepath.Join(h.Dir(s.ID), dataFile(i)))
	}
	pid, err := h.runStages(ctx, input)
	if err != nil {
		return r, err
	}
	if r, err = h.writeRecord(s.ID, pid); err != nil {
		return r, err
	}
	return r, h.CheckAgent(ctx, s.ID)
}

// runStages runs both stages of a node's start. It waits until PID 1 of the node is the agent, and returns its
// process id. If ctx ends first, the stages are killed.
func (h *Host) runStages(ctx context.Context, input stageInput) (int, error) {
	id := input.Spec.ID
	inherited, err := h.inheritedFiles(id)
	defer closeFiles(inherited)
	if err != nil {
		return 0, err
	}
	log, err := h.openLog(id)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	orders, order, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer order.Close()
	reports, report, err := os.Pipe()
	if err != nil {
		orders.Close()
		return 0, err
	}
	defer reports.Close()
	c := &exec.Cmd{
		Path:        filepath.Join(h.State, programFile),
		Args:        []string{Argv0, outerStage, strconv.Itoa(len(inherited))},
		Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "GOGC=off"},
		Dir:         "/",
		Stdout:      log,
		Stderr:      log,
		ExtraFiles:  append(inherited, orders, report),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS},
	}
	err = h.tree.Start(id, c) // the process waits for its input
	orders.Close()
	report.Close()
	if err != nil {
		return 0, fmt.Errorf("cannot start a process in a mount namespace: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { h.tree.Kill(context.WithoutCancel(ctx), id) })
	defer stop()
	err = json.NewEncoder(order).Encode(input)
	order.Close()
	pid, reported := readReports(reports)
	ended := c.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case reported != nil:
		return 0, reported
	case err != nil || ended != nil || pid == 0:
		return 0, fmt.Errorf("a stage of the start ended (%w); see %s", errors.Join(err, ended, errNoReport(pid)), filepath.Join(h.Dir(id), logFile))
	}
	return pid, h.protectFromOOM(id, pid)
}

// errNoReport returns an error if pid is 0, which means that no stage reported PID 1.
func errNoReport(pid int) error {
	if pid == 0 {
		return errors.New("it reported nothing")
	}
	return nil
}

// readReports reads the reports of the stages until both have ended or become the agent. It returns the
// reported id of PID 1, or a reported error.
func readReports(f *os.File) (pid int, err error) {
	b, err := io.ReadAll(io.LimitReader(f, maxReport))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			return pid, fmt.Errorf("a stage reported %.200q", line)
		}
		if r.Error != "" {
			return pid, errors.New(r.Error)
		}
		pid = r.PID
	}
	return pid, nil
}

// protectFromOOM makes PID 1 the last process of its node that the OOM killer selects. Without
// CAP_SYS_RESOURCE, which root in a container lacks, it does nothing.
func (h *Host) protectFromOOM(id string, pid int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("-500"), 0)
	if errors.Is(err, fs.ErrPermission) {
		h.Log.Debug("the agent of a node is not protected from the OOM killer", "node", id, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the agent ended immediately: %w", err)
	}
	return nil
}

// inheritedFiles returns the files for the agent: its socket, and the cgroup.procs files of jobs.
func (h *Host) inheritedFiles(id string) ([]*os.File, error) {
	l, err := fdsocket.Listen(filepath.Join(h.Dir(id), socketFile), 0o600)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, err
	}
	jobs, err := h.tree.Jobs(id)
	return append([]*os.File{f}, jobs...), err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// openLog opens the log of a node. It empties a log that exceeds maxLog.
func (h *Host) openLog(id string) (*os.File, error) {
	f, err := h.nodes.OpenFile(filepath.Join(id, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > maxLog {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
