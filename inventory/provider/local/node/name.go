package node

import (
	"fmt"
	"path/filepath"
	"slices"

	"patchbay/rspec/hostname"
)

// Names of cgroups that do not belong to nodes. No node id can be one of them.
const (
	gatewayGroup = "gateway"
	// vswitchGroup is the prefix of the group of a slice's vswitch process. No node id has this
	// prefix, because node ids contain no dot. The prefix must not change: this program
	// finds the groups of running processes by it.
	vswitchGroup = "relay."
)

// isName reports whether s consists of 1 to limit lower-case letters, digits and hyphens. Root
// creates and removes folders and cgroups with such names, so s must not be a path.
func isName(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func checkID(id string) error {
	if !isName(id, 64) || id == gatewayGroup {
		return fmt.Errorf("%q cannot be the id of a node: use 1 to 64 characters of a-z, 0-9 and -, but not the word %s", id, gatewayGroup)
	}
	return nil
}

func checkInstance(instance string) error {
	if !isName(instance, 16) {
		return fmt.Errorf("%q cannot be the name of an instance: use 1 to 16 characters of a-z, 0-9 and -", instance)
	}
	return nil
}

// nodeIDs returns the valid ids among names, sorted and without duplicates.
func nodeIDs(names []string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return checkID(s) != nil })
	slices.Sort(names)
	return slices.Compact(names)
}

const (
	minMemory = 16 << 20
	minPIDs   = 32 // half of them are for the agent and logins
	minDisk   = 16 << 20
	// MaxDisk is the most bytes of a disk.
	MaxDisk = 16 << 40
	// MaxDisks limits the disks of a node besides its own.
	MaxDisks    = 32
	maxDiskPath = 255
)

// idCount is the number of user ids, and of group ids, of a node. The ids below idCount belong to
// the host. The highest 32-bit id means "no id", so it belongs to no node.
const (
	idCount = 1 << 16
	maxBase = 1<<32 - 1 - idCount
)

func (s Spec) check() error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("node %s: %s", s.ID, fmt.Sprintf(format, args...))
	}
	l := s.Limits
	switch {
	case !hostname.IsHost(s.Hostname):
		return bad("%q is not a host name: it must have 1 to 64 letters, digits, dots and hyphens", s.Hostname)
	case s.Base < idCount || s.Base > maxBase:
		return bad("its user ids cannot start at %d: the first id must be between %d and %d", s.Base, idCount, int64(maxBase))
	case !filepath.IsAbs(s.Image.Root):
		return bad("the path of the image, %q, is not absolute", s.Image.Root)
	case s.Image.Usr != "" && !filepath.IsAbs(s.Image.Usr):
		return bad("the path of the image's /usr, %q, is not absolute", s.Image.Usr)
	case !(l.CPUs >= 0 && l.CPUs <= 4096):
		return bad("%g processors are not possible; give 0 (no limit) to 4096", l.CPUs)
	case l.Memory != 0 && l.Memory < minMemory:
		return bad("%d bytes of memory are too few; a node needs at least %d", l.Memory, minMemory)
	case l.PIDs != 0 && l.PIDs < minPIDs:
		return bad("%d processes are too few; a node needs at least %d", l.PIDs, minPIDs)
	}
	if err := checkDisk(l.Disk); err != nil {
		return bad("%v", err)
	}
	if len(s.Disks) > MaxDisks {
		return bad("it has %d disks, at most %d are possible", len(s.Disks), MaxDisks)
	}
	for _, d := range s.Disks {
		if err := checkDisk(d.Size); err != nil {
			return bad("%v", err)
		}
		if !filepath.IsAbs(d.Path) || filepath.Clean(d.Path) != d.Path || d.Path == "/" || len(d.Path) > maxDiskPath {
			return bad("a disk cannot be mounted at %.80q", d.Path)
		}
	}
	return nil
}

// checkDisk fails unless a disk can have this size in bytes.
func checkDisk(size int64) error {
	if size < minDisk || size > MaxDisk {
		return fmt.Errorf("a disk of %d bytes is not possible; the size must be between %d and %d bytes", size, int64(minDisk), int64(MaxDisk))
	}
	return nil
}
