package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// programFile is this program as nodes see and run it: a copy, so that everybody
// in a node may run it, whatever the permissions of the original and wherever it
// is, and so that nodes are not disturbed when it is replaced.
const programFile = programFolder + "/patchbay-local"

func (h *Host) saveProgram() error {
	now, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("cannot read this program: %w", err)
	}
	if kept, err := h.state.ReadFile(programFile); err == nil && bytes.Equal(kept, now) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const fresh = programFile + ".new"
	if err := h.state.WriteFile(fresh, now, 0o755); err != nil {
		return fmt.Errorf("cannot keep a copy of this program: %w", err)
	}
	if err := h.state.Chmod(fresh, 0o755); err != nil {
		return err
	}
	return h.state.Rename(fresh, programFile)
}
