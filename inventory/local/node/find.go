package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/fdsocket"
)

// recordFile says which process is the node's PID 1.
const recordFile = "run.json"

// Find is the node that is running from an earlier Start. Its agent may be too
// slow to answer just now; only one whose socket leads nowhere does not count.
func (h *Host) Find(ctx context.Context, id string) (Running, bool) {
	if checkID(id) != nil {
		return Running{}, false
	}
	r, err := h.readRecord(id)
	if err != nil || r.Boot != h.boot || r.PID <= 1 {
		return Running{}, false
	}
	started, state, err := ProcessStat(r.PID)
	if err != nil || started != r.Started || state == zombie {
		return Running{}, false
	}
	c, err := h.Agent(ctx, id)
	if err == nil {
		c.Close()
	}
	return r, !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// Died tells whether the last run of a node that does not run has ended without Kill,
// which removes the socket, and whether it ended with the host, which was booted since.
func (h *Host) Died(id string) (died, boot bool) {
	if checkID(id) != nil {
		return false, false
	}
	r, err := h.readRecord(id)
	if err != nil {
		return false, false
	}
	_, err = h.nodes.Lstat(filepath.Join(id, socketFile))
	return err == nil, err == nil && r.Boot != h.boot
}

// Agent connects to the node's agent.
func (h *Host) Agent(ctx context.Context, id string) (*fdsocket.Conn, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return fdsocket.Dial(ctx, filepath.Join(h.Dir(id), socketFile))
}

// CheckAgent asks the agent who it is; nil when it is the node's and answers.
func (h *Host) CheckAgent(ctx context.Context, id string) error {
	c, err := h.Agent(ctx, id)
	if err != nil {
		return err
	}
	who, err := agent.Ping(ctx, c)
	if err != nil {
		return fmt.Errorf("the agent does not answer: %w", err)
	}
	if who.Node != id {
		return fmt.Errorf("the agent says that it is %.64q", who.Node)
	}
	return nil
}

// writeRecord writes down which process is PID 1 of the node.
func (h *Host) writeRecord(id string, pid int) (Running, error) {
	started, _, err := ProcessStat(pid)
	if err != nil {
		return Running{}, fmt.Errorf("the agent ended at once: %w", err)
	}
	r := Running{PID: pid, Started: started, Boot: h.boot}
	b, err := json.Marshal(r)
	if err != nil {
		return Running{}, err
	}
	name := filepath.Join(id, recordFile)
	if err := h.nodes.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Running{}, err
	}
	if err := h.nodes.WriteFile(name+".new", b, 0o600); err != nil {
		return Running{}, err
	}
	return r, h.nodes.Rename(name+".new", name)
}

// readRecord is the last start of the node that was written down. It stays after
// the node's end: it tells in which boot its disk was mounted last.
func (h *Host) readRecord(id string) (r Running, err error) {
	f, err := h.nodes.OpenFile(filepath.Join(id, recordFile), os.O_RDONLY, 0)
	if err != nil {
		return r, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

const zombie = "Z"

// ProcessStat is when a process was started, in ticks after the boot, and its
// state.
func ProcessStat(pid int) (started, state string, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	return parseStat(pid, string(b))
}

func parseStat(pid int, text string) (started, state string, err error) {
	// The second field is the program's name in brackets, which may hold anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const stateAt, startedAt = 0, 19 // fields 3 and 22
	if len(fields) <= startedAt {
		return "", "", fmt.Errorf("process %d: %.200q tells no start", pid, text)
	}
	return fields[startedAt], fields[stateAt], nil
}

// Reap takes away what the kernel keeps of a dead agent that became a child of
// this process (a child subreaper gets them), and tells whether it did. Other
// children are not touched: a process id cannot become another's before this.
func (h *Host) Reap(r Running) bool {
	if r.Boot != h.boot || r.PID <= 1 {
		return false
	}
	started, state, err := ProcessStat(r.PID)
	if err != nil || started != r.Started || state != zombie {
		return false
	}
	return reap(r.PID) == nil
}

// reap waits for a child that is about to end; one that is not a child is none
// of our business.
func reap(pid int) error {
	var err error
	for pause := 100 * time.Microsecond; pause < 200*time.Millisecond; pause *= 2 {
		var got int
		if got, err = unix.Wait4(pid, nil, unix.WNOHANG, nil); got == pid || errors.Is(err, unix.ECHILD) {
			return err
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("process %d has not ended: %w", pid, errors.Join(err, os.ErrDeadlineExceeded))
}
