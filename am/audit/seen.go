package audit

import (
	"errors"
	"os"

	"patchbay/am/store"
)

// Seen returns the last revision of a store that the audit file at path has recorded; 0
// if it has none. A store that continues after this revision never uses a recorded revision
// again.
func Seen(path string) (store.Rev, error) {
	t, err := readTail(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return t.Seen, err
}
