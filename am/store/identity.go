package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrCopy is wrapped by Open when the file is a copy of the site's store.
var ErrCopy = errors.New("it is a copy")

// machineFile holds the id of this machine. A variable for tests.
var machineFile = "/etc/machine-id"

// identity distinguishes the store of a site from its copies. A file that is moved with mv
// keeps its identity; a copy made by cp, rsync or a restored file system has another.
type identity struct {
	inode   uint64
	machine string // "" if the machine has no id
}

// identityOf returns the identity of a file on this machine.
func identityOf(info fs.FileInfo) (is identity) {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		is.inode = sys.Ino
	}
	if text, err := os.ReadFile(machineFile); err == nil && strings.TrimSpace(string(text)) != "uninitialized" {
		is.machine = strings.TrimSpace(string(text))
	}
	return is
}

// recordedIdentity returns the identity that is recorded in the store: the file had it when
// the site was last served. ok is false if none is recorded.
func recordedIdentity(r reader) (is identity, ok bool) {
	text := r.get(metaBucket, []byte(identityName))
	if text == nil {
		return is, false
	}
	fmt.Sscan(string(text), &is.inode, &is.machine) // an unreadable identity matches no file
	return is, true
}

// op returns the operation that records the identity in the store.
func (is identity) op() op {
	return op{metaBucket, []byte(identityName), fmt.Appendf(nil, "%d %s", is.inode, is.machine)}
}

// checkCopyOf fails with an error that wraps ErrCopy if a file with this identity is a
// copy of the recorded one. A machine without an id matches any machine.
func (is identity) checkCopyOf(recorded identity) error {
	switch {
	case is.machine != recorded.machine && is.machine != "" && recorded.machine != "":
		return fmt.Errorf("%w: the site was served on the machine %s, and this is %s", ErrCopy, recorded.machine, is.machine)
	case is.inode != recorded.inode:
		return fmt.Errorf("%w: the site was served with a file that had inode %d, and this file has inode %d", ErrCopy, recorded.inode, is.inode)
	}
	return nil
}

// claim fails if the file is the store of another site than o.Site, or a copy without
// o.Move. It returns the operations that record the site and the identity in the file.
// It returns none for a read-only store, which may be a copy, and none if o.Site is empty.
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
	is := identityOf(info)
	if known && !o.Move {
		if err := is.checkCopyOf(recorded); err != nil {
			return nil, err
		}
	}
	if owner == "" {
		ops = append(ops, op{metaBucket, []byte(siteName), []byte(o.Site)})
	}
	if !known || is != recorded {
		ops = append(ops, is.op())
	}
	return ops, nil
}
