package node

import (
	"fmt"
	"path/filepath"
	"slices"

	"patchbay/inventory/local/agent"
)

// Names of cgroups that do not belong to nodes. No node id can be one of them.
const (
	gatewayGroup = "gateway"
	// vswitchGroup is followed by the slice; node ids contain no dot. It keeps its earlier
	// name, so that groups of switch processes that still run are found.
	vswitchGroup = "relay."
)

// isName reports whether name has only small letters, digits and hyphens, and 1 to most
// bytes. Names become folders and cgroups that root removes, so they must not lead
// elsewhere.
func isName(name string, most int) bool {
	if name == "" || len(name) > most {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// checkID fails unless id can be the id of a node.
func checkID(id string) error {
	if !isName(id, 64) || id == gatewayGroup {
		return fmt.Errorf("%q cannot name a node: it takes 1 to 64 of a-z, 0-9 and -, and not the word %s", id, gatewayGroup)
	}
	return nil
}

// checkInstance fails unless instance can be the name of an instance.
func checkInstance(instance string) error {
	if !isName(instance, 16) {
		return fmt.Errorf("%q cannot name an instance: it takes 1 to 16 of a-z, 0-9 and -", instance)
	}
	return nil
}

// nodeIDs returns the valid node ids among names, sorted and without duplicates.
func nodeIDs(names []string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return checkID(s) != nil })
	slices.Sort(names)
	return slices.Compact(names)
}

// Minimal limits of a node.
const (
	minMemory = 16 << 20
	minPIDs   = 32 // half of them are for the agent and logins
	minDisk   = 16 << 20
	maxDisk   = 16 << 40
)

// idCount is the number of user ids, and of group ids, of a node.
const idCount = 1 << 16

// check fails unless a node can be created from s.
func (s Spec) check() error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("node %s: %s", s.ID, fmt.Sprintf(format, args...))
	}
	l := s.Limits
	switch {
	case !agent.IsHostname(s.Hostname):
		return bad("%q is not a host name: it must have 1 to 64 letters, digits, dots and hyphens", s.Hostname)
	case s.Base < idCount || s.Base > 1<<32-1-idCount:
		return bad("ids from %d on belong to the host: they must start at %d or later", s.Base, idCount)
	case !filepath.IsAbs(s.Image.Root):
		return bad("the image %q is not an absolute path", s.Image.Root)
	case s.Image.Usr != "" && !filepath.IsAbs(s.Image.Usr):
		return bad("/usr of the image, %q, is not an absolute path", s.Image.Usr)
	case !(l.CPUs >= 0 && l.CPUs <= 4096):
		return bad("%g processors are not possible", l.CPUs)
	case l.Memory != 0 && l.Memory < minMemory:
		return bad("%d bytes of memory are too few: at least %d", l.Memory, minMemory)
	case l.PIDs != 0 && l.PIDs < minPIDs:
		return bad("%d processes are too few: at least %d", l.PIDs, minPIDs)
	}
	if err := checkDisk(l.Disk); err != nil {
		return bad("%v", err)
	}
	return nil
}

// checkDisk fails unless a disk can have that size in bytes.
func checkDisk(size int64) error {
	if size < minDisk || size > maxDisk {
		return fmt.Errorf("a disk of %d bytes is not possible: at least %d, at most %d", size, int64(minDisk), int64(maxDisk))
	}
	return nil
}
