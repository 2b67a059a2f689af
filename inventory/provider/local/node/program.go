package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"patchbay/inventory/node/agent"
)

// programFile is the copy of this executable that nodes run. Because of the copy, the mode and
// the folder of the original do not matter, and running nodes do not notice a new original.
const programFile = programFolder + "/patchbay-local"

// sudoFile is a setuid copy of this executable. It always runs as the agent's sudo, even under
// another name. On the host only root can reach it, because only root can enter the state
// folder. In a node it belongs to the node's root.
const sudoFile = programFolder + "/" + agent.SudoName

func (h *Host) saveProgram() error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("cannot read this executable: %w", err)
	}
	for name, mode := range map[string]fs.FileMode{programFile: 0o755, sudoFile: 0o755 | fs.ModeSetuid} {
		if err := h.saveCopy(name, program, mode); err != nil {
			return fmt.Errorf("cannot write a copy of this executable: %w", err)
		}
	}
	return nil
}

// saveCopy skips the write if the file has the same content already.
func (h *Host) saveCopy(name string, program []byte, mode fs.FileMode) error {
	if old, err := h.state.ReadFile(name); err == nil && bytes.Equal(old, program) {
		return h.state.Chmod(name, mode)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := name + ".new"
	if err := errors.Join(h.state.WriteFile(fresh, program, 0o755), h.state.Chmod(fresh, mode)); err != nil {
		return err
	}
	return h.state.Rename(fresh, name)
}
