package hostalloc

import (
	"path/filepath"
	"time"
)

// Networks returns the folder of claims on the numbers 1 to last, below root: those of the
// networks between the host and the egress namespaces of its testbeds.
func Networks(root string, last uint32) *Folder {
	return &Folder{
		dir: filepath.Join(root, "networks"), what: "network", first: 1, last: last, step: 1,
		now: time.Now,
	}
}
