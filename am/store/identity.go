package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrCopy is wrapped by the error of Open if the file is a copy of the site's store.
var ErrCopy = errors.New("it is a copy")

// machineFile is the path of the file with the id of this machine. Tests change it.
var machineFile = "/etc/machine-id"

// identity distinguishes the store of a site from its copies. A file that is moved with mv
// keeps its identity. A copy made by cp, by rsync or by restoring a file system has another
// identity.
type identity struct {
	inode   uint64
	machine string // "" if the machine has no id
}

func identityOf(info fs.FileInfo) (id identity) {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = sys.Ino
	}
	if text, err := os.ReadFile(machineFile); err == nil && strings.TrimSpace(string(text)) != "uninitialized" {
		id.machine = strings.TrimSpace(string(text))
	}
	return id
}

// recordedIdentity returns the identity that the store's file had when the site was last served. ok
// is false if no identity is recorded.
func recordedIdentity(r reader) (id identity, ok bool) {
	text := r.get(metaBucket, []byte(identityName))
	if text == nil {
		return id, false
	}
	fmt.Sscan(string(text), &id.inode, &id.machine) // an unreadable identity matches no file
	return id, true
}

func (id identity) op() op {
	return op{metaBucket, []byte(identityName), fmt.Appendf(nil, "%d %s", id.inode, id.machine)}
}

// checkCopyOf fails if a file with this identity is a copy of the file with the recorded
// identity. The error wraps ErrCopy. A machine without an id matches any machine.
func (id identity) checkCopyOf(recorded identity) error {
	switch {
	case id.machine != recorded.machine && id.machine != "" && recorded.machine != "":
		return fmt.Errorf("%w: the site was served on the machine %s, and this is %s", ErrCopy, recorded.machine, id.machine)
	case id.inode != recorded.inode:
		return fmt.Errorf("%w: the site was served with a file that had inode %d, and this file has inode %d", ErrCopy, recorded.inode, id.inode)
	}
	return nil
}

// claim returns the operations that record the site and the file's identity. It fails if the store
// belongs to another site than o.Site, or if it is a copy and o.Move is not set. A read-only store
// may be a copy; then claim returns no operations. If o.Site is empty, claim checks nothing and
// returns no operations.
func (d *database) claim(o Options) (ops []op, err error) {
	if o.Site == "" {
		return nil, nil
	}
	var owner string
	var recorded identity
	var known bool
	err = d.read(func(r reader) error {
		owner = string(r.get(metaBucket, []byte(siteName)))
		recorded, known = recordedIdentity(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if owner != "" && owner != o.Site {
		return nil, fmt.Errorf("it is the store of site %s, not of %s; set authority back to %s, or name another file for the new site", owner, o.Site, owner)
	}
	if o.ReadOnly != nil {
		return nil, nil
	}
	info, err := d.file.Stat()
	if err != nil {
		return nil, err
	}
	id := identityOf(info)
	if known && !o.Move {
		if err := id.checkCopyOf(recorded); err != nil {
			return nil, err
		}
	}
	if owner == "" {
		ops = append(ops, op{metaBucket, []byte(siteName), []byte(o.Site)})
	}
	if !known || id != recorded {
		ops = append(ops, id.op())
	}
	return ops, nil
}
