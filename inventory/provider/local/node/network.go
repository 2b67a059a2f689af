package node

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Network opens the network namespace of the running node; the caller closes it. It never
// returns the namespace of another process, even if the node's PID 1 has just ended and its
// process id was reused. The namespace exists until the node's processes have ended and the
// file is closed.
func (h *Host) Network(id string) (*os.File, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	r, err := h.readRecord(id)
	if err != nil {
		return nil, err
	}
	if r.Boot != h.boot || r.PID <= 1 {
		return nil, fmt.Errorf("node %s does not run", id)
	}
	// Paths below this folder belong to the current process with this id, never to a later one.
	process, err := os.Open(fmt.Sprintf("/proc/%d", r.PID))
	if err != nil {
		return nil, err
	}
	defer process.Close()
	space, err := openBelow(process, "ns/net")
	if err != nil {
		return nil, err
	}
	if err := checkProcess(process, space, r); err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w", id, err), space.Close())
	}
	return space, nil
}

// checkProcess fails unless the process is the recorded one and has its own network namespace.
func checkProcess(process, space *os.File, r Running) error {
	stat, err := openBelow(process, "stat")
	if err != nil {
		return err
	}
	defer stat.Close()
	b, err := io.ReadAll(io.LimitReader(stat, 4096))
	if err != nil {
		return err
	}
	started, _, err := parseStat(r.PID, string(b))
	if err != nil {
		return err
	}
	if started != r.Started {
		return fmt.Errorf("process id %d was reused by another process", r.PID)
	}
	var its, ours unix.Stat_t
	if err := errors.Join(unix.Fstat(int(space.Fd()), &its), unix.Stat("/proc/self/ns/net", &ours)); err != nil {
		return err
	}
	if its.Ino == ours.Ino && its.Dev == ours.Dev {
		return fmt.Errorf("process %d is in the network of the host", r.PID)
	}
	return nil
}

func openBelow(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}
