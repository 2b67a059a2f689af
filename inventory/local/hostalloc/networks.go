package hostalloc

import (
	"path/filepath"
	"time"
)

// Networks are the numbers 1 to last, of networks between the host and an
// instance, of the claims below root.
func Networks(root string, last uint32) *Folder {
	return &Folder{
		dir: filepath.Join(root, "networks"), what: "network", first: 1, last: last, step: 1,
		now: time.Now,
	}
}
