package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"patchbay/inventory/local/agent"
)

// programFile is this program as nodes see and run it: a copy, so that everybody
// in a node may run it, whatever the permissions of the original and wherever it
// is, and so that nodes are not disturbed when it is replaced.
const programFile = programFolder + "/patchbay-local"

// sudoFile is the same program, setuid root: what it does then is agent.Sudo,
// under whatever name. Nobody on the host but root reaches it, for the state
// folder is root's alone; in a node its owner is the node's root.
const sudoFile = programFolder + "/" + agent.SudoName

// saveProgram writes the copies that nodes see, where they differ from this program.
func (h *Host) saveProgram() error {
	now, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("cannot read this program: %w", err)
	}
	for name, mode := range map[string]fs.FileMode{programFile: 0o755, sudoFile: 0o755 | fs.ModeSetuid} {
		if err := h.saveCopy(name, now, mode); err != nil {
			return fmt.Errorf("cannot keep a copy of this program: %w", err)
		}
	}
	return nil
}

func (h *Host) saveCopy(name string, now []byte, mode fs.FileMode) error {
	if kept, err := h.state.ReadFile(name); err == nil && bytes.Equal(kept, now) {
		return h.state.Chmod(name, mode)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := name + ".new"
	if err := errors.Join(h.state.WriteFile(fresh, now, 0o755), h.state.Chmod(fresh, mode)); err != nil {
		return err
	}
	return h.state.Rename(fresh, name)
}
