package audit

import (
	"errors"
	"os"

	"patchbay/am/store"
)

// Seen is the last revision of a store that the audit in the file path knows of; 0
// if it knows of none. A store that goes on from there gives no number again that
// the audit has told.
func Seen(path string) (store.Rev, error) {
	t, err := readTail(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return t.Seen, err
}
