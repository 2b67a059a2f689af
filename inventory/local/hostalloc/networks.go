package hostalloc

import (
	"path/filepath"
	"time"
)

// Networks returns the folder ROOT/networks, for claims on the numbers 1 to last. Each
// is the number of a network between the host and the egress namespace of a testbed.
func Networks(root string, last uint32) *Folder {
	return &Folder{
		dir: filepath.Join(root, "networks"), what: "network", first: 1, last: last, step: 1,
		now: time.Now,
	}
}
