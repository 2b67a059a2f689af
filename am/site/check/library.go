package check

import (
	"path/filepath"
	"strings"

	"patchbay/am/site"
	"patchbay/rspec/blueprint"
)

// isLibrary reports whether a file has types of blueprints.
func isLibrary(name string) bool {
	full, err := filepath.Abs(name)
	return err == nil && strings.HasSuffix(name, ".yaml") && filepath.Base(filepath.Dir(full)) == site.LibraryName
}

// library reports the types in a folder.
func (k *Checker) library(dir string) {
	l, err := blueprint.LoadLibrary(dir)
	if err != nil {
		k.Errors(err)
		return
	}
	for _, line := range l.Describe() {
		k.good(dir, "%s", line)
	}
}
