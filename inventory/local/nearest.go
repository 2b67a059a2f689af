package local

import (
	"fmt"
	"strings"

	"patchbay/inventory/suggest"
)

// meant asks whether the nearest word was meant, or says which there are.
func meant(wrong string, have []string) string {
	if best := suggest.Word(wrong, have); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "there are " + listed(have)
}

func listed(words []string) string { return strings.Join(words, ", ") }
