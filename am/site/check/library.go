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

// library explains the types of a file.
func (k *Checker) library(name string, text []byte) {
	problems := blueprint.CheckLibrary(text, name)
	for _, p := range problems {
		k.bad(name, "%s", p)
	}
	if len(problems) > 0 {
		return
	}
	for _, line := range blueprint.DescribeLibrary(text, name) {
		k.good(name, "%s", line)
	}
}

// libraries checks all files of a site with types.
func (k *Checker) libraries(c *site.Config) {
	names, err := blueprint.LibraryFiles(c.LibraryFolder())
	if err != nil {
		k.Errors(err)
	}
	for _, name := range names {
		text, err := site.ReadRegular(name)
		if err != nil {
			k.Errors(err)
			continue
		}
		k.library(name, text)
	}
}
