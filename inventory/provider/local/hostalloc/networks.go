package hostalloc

import (
	"path/filepath"
	"time"
)

// Networks returns the folder ROOT/networks, for claims on the numbers 1 to count. Each
// number means a network between the host and the egress namespace of a testbed.
func Networks(root string, count uint32) *Folder {
	return &Folder{
		dir: filepath.Join(root, "networks"), what: "network", first: 1, last: count, step: 1,
		now: time.Now,
	}
}
