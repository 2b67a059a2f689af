package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"patchbay/inventory/provider/local/cgroup"
)

// Limits bound a node.
type Limits struct {
	CPUs   float64 // processors; 0: no limit
	Memory int64   // bytes; 0: no limit
	PIDs   int     // 0: no limit
	Disk   int64   // bytes
}

// Image is a read-only root file system on the host.
type Image struct {
	Root string // absolute path
	Usr  string // absolute path, or empty if Root contains it
}

// Spec describes a node.
type Spec struct {
	// ID is the node's name on this host: [a-z0-9-], at most 64. It must not be reused before
	// the node is completely removed.
	ID       string
	Hostname string
	// Base is the first of the node's 65536 user and group ids on the host.
	Base   uint32
	Image  Image
	Limits Limits
	// Disks are mounted in addition to the node's own disk.
	Disks []Disk
}

// Disk is an ext4 file system of the node, of Size bytes. It is mounted at Path, which is absolute
// and clean, unless a link or a file in the node is in its way.
type Disk struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// Running identifies the PID 1 of a running node, also after a restart of this program.
type Running struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // field 22 of /proc/PID/stat
	Boot    string `json:"boot"`    // boot_id of the kernel
}

// Usage is the amount of each resource that a node uses now.
type Usage struct {
	Memory, Disk int64 // bytes
	Files        int64 // bytes of Memory that are cached files
	PIDs         int
}

// Host creates nodes below one state folder, for one instance. Its methods may be called
// concurrently; changes of the same node wait for each other.
type Host struct {
	State    string // absolute path, mode 0700, owned by root
	Instance string // [a-z0-9-], at most 16
	Log      *slog.Logger

	tree        *cgroup.Tree
	processTree *cgroup.Tree // of the gateway and vswitch processes
	state       *os.Root     // State
	nodes       *os.Root     // State/nodes
	boot        string       // boot_id of the kernel
	locks       nodeLocks    // of nodes that are being changed
	disks       sync.Mutex   // held while a disk is formatted
	// groupsMu is held while a cgroup in processTree may be created.
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

// Open prepares the state folder and the cgroup parents. It removes the files of interrupted
// calls of Remove and Prepare. So only one program at a time may have the folder open.
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

// open opens the state folder and its subfolders, saves this executable there for nodes, removes what earlier
// programs have left, and creates the cgroup parents.
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
	if err := h.state.Chmod(programFolder, 0o755); err != nil { // for users in nodes
		return err
	}
	if h.nodes, err = h.state.OpenRoot(nodesFolder); err != nil {
		return err
	}
	if err := h.saveProgram(); err != nil {
		return err
	}
	if err := errors.Join(h.emptyTrash(), h.sweepDisks()); err != nil {
		h.Log.Warn("cannot remove old files from the state folder; check its folders trash and disks", "error", err)
	}
	if h.tree, err = cgroup.Open(h.Instance); err != nil {
		return err
	}
	if h.processTree, err = cgroup.OpenPrograms(h.Instance); err != nil {
		return err
	}
	h.removeEmptyGroups() // of vswitch processes that ended while this program did not run
	return nil
}

// openPrivateFolder opens a folder that only root can use, and creates it if necessary.
func openPrivateFolder(path string) (*os.Root, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || st.Uid != 0 || info.Mode().Perm() != 0o700 {
		return nil, fmt.Errorf("the state folder %s must be a folder of root with permissions 0700; move the existing file or folder away", path)
	}
	return os.OpenRoot(path)
}

// bootID returns the kernel's boot_id, which changes at each boot.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// Dir returns the folder of a node, State/nodes/ID, which Prepare creates and Remove removes
// with its content. It returns "" for an invalid id.
func (h *Host) Dir(id string) string {
	if checkID(id) != nil {
		return ""
	}
	return filepath.Join(h.State, nodesFolder, id)
}

// IDs returns all nodes of which a folder or a cgroup exists.
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

// Usage returns how much of each resource a node uses now. Disk is the allocated size of its
// disks. The other numbers are 0 if the node does not run.
func (h *Host) Usage(id string) (Usage, error) {
	if err := checkID(id); err != nil {
		return Usage{}, err
	}
	var u Usage
	disks, err := h.diskFiles(id)
	if err == nil && !slices.Contains(disks, filepath.Join(id, diskFile)) {
		err = &fs.PathError{Op: "open", Path: filepath.Join(h.Dir(id), diskFile), Err: fs.ErrNotExist}
	}
	for _, name := range disks {
		info, errDisk := h.nodes.Lstat(name)
		if err = errors.Join(err, errDisk); err == nil {
			u.Disk += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	if err != nil {
		return Usage{}, err
	}
	groups, err := h.tree.Usage(id)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil // the node does not run
	}
	u.Memory, u.Files, u.PIDs = groups.Memory, groups.Files, groups.PIDs
	return u, err
}

// Close removes unused cgroup parents and, if no node exists, the empty folders of State. The
// Host must not be used afterwards.
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
