package lxd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/file"
	"patchbay/inventory"
)

// folder holds a file for each node that the cluster does not yet have as requested:
// NAME.nodes/ID.json. Finished nodes have no file.
type folder struct {
	dir, name string // of the provider
}

// pending is the content of a file.
type pending struct {
	Node node `json:"node"`
	// Since is when the node was requested.
	Since time.Time `json:"since"`
	// New means that the cluster did not have the node when it was requested.
	New bool `json:"new,omitempty"`
	// Refresh means that nothing was requested: other nodes have changed. The node is ready meanwhile.
	Refresh bool `json:"refresh,omitempty"`
	// Failed is the reason why the node cannot become as requested. The worker then leaves it alone.
	Failed string `json:"failed,omitempty"`
	// Progress describes the current step of the worker.
	Progress string `json:"progress,omitempty"`
}

func (f folder) path() string           { return filepath.Join(f.dir, f.name+".nodes") }
func (f folder) file(id string) string  { return filepath.Join(f.path(), id+".json") }
func (f folder) beside(s string) string { return filepath.Join(f.dir, f.name+s) }
func (f folder) catalogue() string {
	return filepath.Join(f.dir, "..", inventory.CatalogueFolder) // dir may be the working directory
}

// lock is for changes of the files; claim is for the process that is the worker, and fails if there is one.
func (f folder) lock() (func(), error)  { return flock(f.beside(".lock"), unix.LOCK_EX) }
func (f folder) claim() (func(), error) { return flock(f.beside(".worker"), unix.LOCK_EX|unix.LOCK_NB) }

// flock locks the file at path, and returns the function that releases the lock.
func flock(path string, how int) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// read reads the file of a node. It returns nil if there is none.
func (f folder) read(id string) (*pending, error) {
	text, err := os.ReadFile(f.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p pending
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return &p, err
}

// modified returns when the file of a node was changed; the zero time if there is none.
func (f folder) modified(id string) (at time.Time) {
	if info, err := os.Stat(f.file(id)); err == nil {
		at = info.ModTime()
	}
	return at
}

// write writes the file of a node. The caller must hold the lock.
func (f folder) write(p *pending) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.path(), 0o700); err != nil {
		return err
	}
	return file.Write(f.file(p.Node.Name), text, 0o600)
}

// remove removes the file of a node, if there is one. The caller must hold the lock.
func (f folder) remove(id string) error {
	err := os.Remove(f.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeUnfinished removes files of writers that were killed.
func (f folder) removeUnfinished() error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if file.Unfinished(e.Name()) != "" {
			err = errors.Join(err, os.Remove(filepath.Join(f.path(), e.Name())))
		}
	}
	return err
}

// ids returns the names of the nodes that have a file.
func (f folder) ids() (all []string, err error) {
	entries, err := os.ReadDir(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && isID(id) {
			all = append(all, id)
		}
	}
	return all, err
}
