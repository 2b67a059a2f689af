package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/cgroup"
)

const (
	tryMemory = 64 << 20
	tryPIDs   = 24
	tryCPUs   = 0.2
)

func tryLimits(ctx context.Context, b *resources) (string, *trouble) {
	return checkLimits(ctx, b, cgroup.Limits{CPUs: tryCPUs, Memory: tryMemory, PIDs: tryPIDs})
}

// checkLimits tests each limit with a process that exceeds it.
func checkLimits(ctx context.Context, b *resources, l cgroup.Limits) (string, *trouble) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t, err := b.tree(ctx)
	if err != nil {
		return "", &trouble{err.Error(), cgroupRemedy(err, "mount -t cgroup2 none /sys/fs/cgroup")}
	}
	defer t.Close()
	g := group{t, b.id()}
	if err := t.Make(g.id, l); err != nil { // the first write to cgroups, if the tree existed already
		return "", &trouble{err.Error(), cgroupRemedy(err, "find out what else manages groups here: systemd-cgls")}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		t.Kill(ctx, g.id)
		t.Remove(ctx, g.id)
	}()
	for _, check := range [...]func(context.Context) *trouble{g.checkMemory, g.checkTime, g.checkNumber, g.checkKill} {
		limited, cancel := context.WithTimeout(ctx, patience)
		t := check(limited)
		late := limited.Err() != nil && ctx.Err() == nil
		cancel()
		if late {
			return "", tooLate()
		}
		if t != nil {
			return "", t
		}
	}
	words := fmt.Sprintf("control groups (%s) limit memory, processes and processor time, and end processes", t.Version())
	if all, err := t.SharedLimits(); err == nil {
		words += fmt.Sprintf("; all nodes together may have %s of memory and %d processes", size(all.Memory), all.PIDs)
		if n := b.place.PIDs; n > 0 {
			words += fmt.Sprintf(", enough for %d nodes with all their processes", all.PIDs/n)
		}
	}
	return words, nil
}

// cgroupRemedy returns fallback, or the remedy for read-only groups if err means that
// groups cannot be written. It always adds the remedy for containers.
func cgroupRemedy(err error, fallback string) string {
	if forbidden(err) || errors.Is(err, unix.EROFS) {
		fallback = "mount -o remount,rw /sys/fs/cgroup"
	}
	return fallback + "; " + container
}

type group struct {
	*cgroup.Tree
	id string
}

func (g group) start(ctx context.Context, args ...string) (*child, *trouble) {
	c, err := start(ctx, &syscall.SysProcAttr{}, nil, args...)
	if err == nil {
		err = g.Join(g.id, c.cmd.Process.Pid)
	}
	if err != nil {
		return nil, &trouble{err.Error(), container}
	}
	return c, nil
}

// disabled is the remedy for a limit without effect.
const disabled = "boot the kernel without cgroup_disable (cat /proc/cmdline), or use one with that controller, such as Debian's"

func (g group) checkMemory(ctx context.Context) *trouble {
	c, t := g.start(ctx, "eat", strconv.Itoa(3*tryMemory))
	if t != nil {
		return t
	}
	_, _, err := c.wait()
	if err == nil {
		return &trouble{fmt.Sprintf("a process limited to %d MiB of memory took %d MiB", tryMemory>>20, 3*tryMemory>>20), disabled + "; with swap and groups of version 1 also boot with swapaccount=1"}
	}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return &trouble{"a process that took too much memory was not killed: " + err.Error(), container}
	}
	return nil
}

// checkNumber checks that a group cannot have more processes than its limit.
func (g group) checkNumber(ctx context.Context) *trouble {
	c, t := g.start(ctx, "fork", strconv.Itoa(4*tryPIDs))
	if t != nil {
		return t
	}
	// A probe that fails could not even start its own threads, so the limit works.
	if words, _, err := c.wait(); err == nil && words != refused {
		return &trouble{fmt.Sprintf("a group limited to %d processes took %d", tryPIDs, 4*tryPIDs), disabled}
	}
	return nil
}

// checkTime checks that a group gets no more processor time than its limit.
func (g group) checkTime(ctx context.Context) *trouble {
	const spin = 400 * time.Millisecond
	c, t := g.start(ctx, "spin", spin.String())
	if t != nil {
		return t
	}
	began := time.Now()
	if _, _, err := c.wait(); err != nil {
		return &trouble{"a process in a group failed: " + err.Error(), container}
	}
	took := time.Since(began)
	// The kernel enforces the limit for each period of 100 ms, so a process may exceed it
	// for a moment.
	allowed := time.Duration(1.5*tryCPUs*float64(took)) + 50*time.Millisecond
	if used := c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime(); used > allowed {
		return &trouble{fmt.Sprintf("a group limited to %.1f processors took %v in %v", tryCPUs, used.Round(time.Millisecond), took.Round(time.Millisecond)), "use a kernel with CONFIG_CFS_BANDWIDTH, such as Debian's"}
	}
	return nil
}

// checkKill checks that the processes of a group can be ended, and the group removed.
func (g group) checkKill(ctx context.Context) *trouble {
	c, t := g.start(ctx, "hold")
	if t != nil {
		return t
	}
	if err := g.Kill(ctx, g.id); err != nil {
		return &trouble{err.Error(), container}
	}
	if err := c.cmd.Wait(); err == nil || ctx.Err() != nil {
		return &trouble{"the processes of a group could not be ended", container}
	}
	if err := g.Remove(ctx, g.id); err != nil {
		return &trouble{err.Error(), "list that group: cat its cgroup.procs"}
	}
	return nil
}

func probeEat(args []string) (string, *trouble) {
	n, _ := strconv.Atoi(args[0])
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		os.Exit(1)
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	return "", nil
}

const refused = "refused"

// probeFork starts as many processes as its argument says. They count as zombies until
// probeFork waits for them, after the last start. probeFork returns refused if it could
// not start all.
func probeFork(args []string) (string, *trouble) {
	n, _ := strconv.Atoi(args[0])
	words := ""
	for range n {
		pid, _, err := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if err != 0 {
			words = refused
			break
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return words, nil
		}
	}
}

func probeSpin(args []string) (string, *trouble) {
	d, _ := time.ParseDuration(args[0])
	end := time.Now().Add(d)
	for range 3 {
		go func() {
			for time.Now().Before(end) {
			}
		}()
	}
	for time.Now().Before(end) {
	}
	return "", nil
}
