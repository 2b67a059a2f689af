package node

import (
	"context"
	"errors"
	"log/slog"

	"patchbay/inventory/local/wire"
)

// Limits bound a node.
type Limits struct {
	CPUs   float64 // processors; 0 is no limit
	Memory int64   // bytes; 0 is no limit
	PIDs   int     // 0 is no limit
	Disk   int64   // bytes
}

// Image is a root file system on the host, read-only.
type Image struct {
	Root string // absolute
	Usr  string // absolute, or empty where Root has it
}

// Spec is what a node is made of.
type Spec struct {
	// ID is the node's name on this host: [a-z0-9-], at most 64. It is never
	// used again for another node while anything of the first is left.
	ID       string
	Hostname string
	// Base is the first of its 65536 user and group ids.
	Base   uint32
	Image  Image
	Limits Limits
}

// Running is how a running node is told from any other process, also after
// this program was started again.
type Running struct {
	PID     int
	Started string // field 22 of /proc/PID/stat
	Boot    string // boot_id of the kernel
}

// Usage is what a node takes now.
type Usage struct {
	Memory, Disk int64 // bytes
	PIDs         int
}

// Host makes nodes below one state folder, for one instance.
type Host struct {
	State    string // absolute, 0700, root's
	Instance string // [a-z0-9-], at most 16
	Log      *slog.Logger
}

var errNotBuilt = errors.New("not built yet")

// Open prepares the host: state folder, cgroup parents.
func Open(state, instance string, log *slog.Logger) (*Host, error) { return nil, errNotBuilt }

// Dir is the folder of a node, State/nodes/ID; Prepare makes it unless it is
// there, and Remove removes it with everything in it.
func (h *Host) Dir(id string) string { return "" }

// Prepare makes folder and disk. It may be called again after a crash.
func (h *Host) Prepare(ctx context.Context, s Spec) error { return errNotBuilt }

// Start makes a prepared node run; nothing of it may be running.
func (h *Host) Start(ctx context.Context, s Spec) (Running, error) { return Running{}, errNotBuilt }

// Find is the node that is running from an earlier Start, if its agent answers.
func (h *Host) Find(ctx context.Context, id string) (Running, bool) { return Running{}, false }

// Agent connects to the node's agent.
func (h *Host) Agent(ctx context.Context, id string) (*wire.Conn, error) { return nil, errNotBuilt }

// Kill ends all of the node's processes at once and waits until its mounts,
// groups and loop device are gone. Its disk stays.
func (h *Host) Kill(ctx context.Context, id string) error { return errNotBuilt }

// Remove is Kill, and then the folder goes too. Removing what is not there
// succeeds.
func (h *Host) Remove(ctx context.Context, id string) error { return errNotBuilt }

// IDs are all nodes of which anything is left: folders or groups.
func (h *Host) IDs() ([]string, error) { return nil, errNotBuilt }

// Usage is what the node takes.
func (h *Host) Usage(id string) (Usage, error) { return Usage{}, errNotBuilt }

// Close removes the cgroup parents and empty folders when no node is left.
func (h *Host) Close() error { return errNotBuilt }

// Argv0 is the first argument of the program where it runs as a stage of making
// a node; the main function then calls Stage at once.
const Argv0 = "patchbay-node"

// Stage is one of the steps between Start and the agent. It does not return.
func Stage() {}
