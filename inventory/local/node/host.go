package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"patchbay/inventory/local/cgroup"
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
	PID     int    `json:"pid"`
	Started string `json:"started"` // field 22 of /proc/PID/stat
	Boot    string `json:"boot"`    // boot_id of the kernel
}

// Usage is what a node takes now.
type Usage struct {
	Memory, Disk int64 // bytes
	Files        int64 // bytes of Memory that could be read again from the disk
	PIDs         int
}

// Host makes nodes below one state folder, for one instance. Its methods may be
// called at the same time; what changes the same node waits for each other.
type Host struct {
	State    string // absolute, 0700, root's
	Instance string // [a-z0-9-], at most 16
	Log      *slog.Logger

	tree        *cgroup.Tree
	processTree *cgroup.Tree // of gateway and relays
	state       *os.Root     // State
	nodes       *os.Root     // State/nodes
	boot        string       // boot_id of the kernel
	locks       nodeLocks    // nodes that are being changed
	disks       sync.Mutex
	// groupsMu is held while a group beside those of nodes may be made.
	groupsMu sync.Mutex
}

// Folders of State.
const (
	nodesFolder    = "nodes"
	trashFolder    = "trash"
	disksFolder    = "disks"
	assemblyFolder = "assembly"
	programFolder  = "program"
)

// Open prepares the host: state folder, cgroup parents. It removes what was
// left by a Remove or a Prepare that was interrupted, so only one program at a
// time may have the folder open.
func Open(state, instance string, log *slog.Logger) (*Host, error) {
	if err := checkInstance(instance); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(state) || filepath.Clean(state) != state {
		return nil, fmt.Errorf("the state folder %q is not an absolute path", state)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Host{State: state, Instance: instance, Log: log}
	if err := h.open(); err != nil {
		h.closeFolders()
		return nil, err
	}
	return h, nil
}

func (h *Host) open() (err error) {
	if h.boot, err = bootID(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(h.State), 0o755); err != nil {
		return err
	}
	if h.state, err = openPrivateFolder(h.State); err != nil {
		return err
	}
	for _, folder := range []string{nodesFolder, trashFolder, disksFolder, assemblyFolder, programFolder} {
		if err := h.state.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := h.state.Chmod(programFolder, 0o755); err != nil { // for those in nodes
		return err
	}
	if h.nodes, err = h.state.OpenRoot(nodesFolder); err != nil {
		return err
	}
	if err := h.saveProgram(); err != nil {
		return err
	}
	if err := errors.Join(h.emptyTrash(), h.sweepDisks()); err != nil {
		h.Log.Warn("cannot tidy the state folder: look at what is left there", "error", err)
	}
	if h.tree, err = cgroup.Open(h.Instance); err != nil {
		return err
	}
	if h.processTree, err = cgroup.OpenPrograms(h.Instance); err != nil {
		return err
	}
	h.removeEmptyGroups() // of relays that ended without anybody who saw it
	return nil
}

// openPrivateFolder opens a folder, made if need be, that is root's alone.
func openPrivateFolder(path string) (*os.Root, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || st.Uid != 0 || info.Mode().Perm() != 0o700 {
		return nil, fmt.Errorf("the state folder %s must be a folder of root with permissions 0700: move what is there away", path)
	}
	return os.OpenRoot(path)
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// Dir is the folder of a node, State/nodes/ID; Prepare makes it unless it is
// there, and Remove removes it with everything in it. It is empty for what
// cannot be the name of a node.
func (h *Host) Dir(id string) string {
	if checkID(id) != nil {
		return ""
	}
	return filepath.Join(h.State, nodesFolder, id)
}

// IDs are all nodes of which anything is left: folders or groups.
func (h *Host) IDs() ([]string, error) {
	groups, err := h.tree.IDs()
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(h.nodes.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		groups = append(groups, e.Name())
	}
	return nodeIDs(groups), nil
}

// Usage is what the node takes. Disk is what its disk takes on the host.
func (h *Host) Usage(id string) (Usage, error) {
	if err := checkID(id); err != nil {
		return Usage{}, err
	}
	info, err := h.nodes.Lstat(filepath.Join(id, diskFile))
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Disk: info.Sys().(*syscall.Stat_t).Blocks * 512}
	groups, err := h.tree.Usage(id)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil // it does not run
	}
	u.Memory, u.Files, u.PIDs = groups.Memory, groups.Files, groups.PIDs
	return u, err
}

// Close removes the cgroup parents and empty folders when no node is left. The
// Host must not be used any more.
func (h *Host) Close() error {
	h.removeEmptyGroups()
	err := errors.Join(h.tree.Close(), h.processTree.Close())
	if entries, reading := fs.ReadDir(h.nodes.FS(), "."); reading == nil && len(entries) == 0 {
		for _, folder := range []string{nodesFolder, trashFolder, assemblyFolder} {
			if e := h.state.Remove(folder); e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, syscall.ENOTEMPTY) {
				err = errors.Join(err, e)
			}
		}
	}
	h.closeFolders()
	return err
}

func (h *Host) closeFolders() {
	for _, r := range []*os.Root{h.nodes, h.state} {
		if r != nil {
			r.Close()
		}
	}
}
