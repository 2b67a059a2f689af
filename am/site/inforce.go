package site

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"patchbay/inventory"
)

// inForceName is the file beside the store that has the fingerprint of the inventory
// of which the log has told last. Without it everything is told once more.
const inForceName = "inventory.told"

func (c *Config) inForceFile() string { return filepath.Join(filepath.Dir(c.State), inForceName) }

// wasInForce tells whether v is the inventory of which the log has told last.
func (s *Site) wasInForce(v *inventory.Inventory) bool {
	text, err := os.ReadFile(s.config.inForceFile())
	return err == nil && bytes.Equal(text, fingerprintText(v))
}

func (s *Site) noteInForce(v *inventory.Inventory) {
	if err := ReplaceFile(s.config.inForceFile(), fingerprintText(v), 0o644); err != nil {
		s.log.Warn("which inventory is in force cannot be noted, so the next start tells again what it means for slivers", "error", err)
	}
}

func fingerprintText(v *inventory.Inventory) []byte { return fmt.Appendf(nil, "%s\n", v.Fingerprint) }
