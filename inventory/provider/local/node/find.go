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

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/fdsocket"
)

// recordFile records the process that is the node's PID 1.
const recordFile = "run.json"

// Find returns the process of a node, and reports whether the node runs. An earlier process of
// this program may have started the node. Find does not wait for an answer of the agent. But
// if no process listens on the agent's socket, the node does not run.
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

// Died reports how the last run of a stopped node ended. died is true if the agent's socket still
// exists, because Kill would have removed it. boot is true if, in addition, the host was rebooted
// after the node's start.
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

// Agent connects to the node's agent. The caller closes the connection.
func (h *Host) Agent(ctx context.Context, id string) (*fdsocket.Conn, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return fdsocket.Dial(ctx, filepath.Join(h.Dir(id), socketFile))
}

// CheckAgent fails unless the node's agent answers with the node's id.
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
		return fmt.Errorf("the agent answers as node %.64q", who.Node)
	}
	return nil
}

// writeRecord records the process pid as the node's PID 1.
func (h *Host) writeRecord(id string, pid int) (Running, error) {
	started, _, err := ProcessStat(pid)
	if err != nil {
		return Running{}, fmt.Errorf("the agent ended immediately: %w", err)
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

// readRecord returns the record of the node's last start. The record stays after the node's
// end, since it says during which boot of the host the disk was last mounted.
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

// ProcessStat returns the start time of a process, in ticks after boot, and the letter of
// its state.
func ProcessStat(pid int) (started, state string, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	return parseStat(pid, string(b))
}

func parseStat(pid int, text string) (started, state string, err error) {
	// The second field is the program's name in parentheses, which may contain any character.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const stateAt, startedAt = 0, 19 // fields 3 and 22
	if len(fields) <= startedAt {
		return "", "", fmt.Errorf("process %d: %.200q has no start time", pid, text)
	}
	return fields[startedAt], fields[stateAt], nil
}

// Reap reaps the agent r if the agent is dead and a child of this process. It reports whether
// it did. It reaps no other child, because it compares the start time of the process.
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

// reap waits for a child that is about to end. It fails for a process that is not a child.
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
