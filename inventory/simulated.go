package inventory

import (
	"bytes"
	_ "embed"
)

//go:embed simulated.yaml
var simulated []byte

// SimulatedText is the inventory.yaml of a new site whose nodes only pretend
// to exist, with comments that explain every key.
func SimulatedText(authority string) []byte {
	return bytes.ReplaceAll(simulated, []byte("AUTHORITY"), []byte(authority))
}
