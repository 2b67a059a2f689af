package inventory

import (
	"bytes"
	_ "embed"
)

//go:embed simulated.yaml
var simulated []byte

// SimulatedText returns the inventory.yaml of a new site with simulated nodes. The comments
// in the text explain every key.
func SimulatedText(authority string) []byte {
	return bytes.ReplaceAll(simulated, []byte("AUTHORITY"), []byte(authority))
}
