package site

import (
	"path/filepath"

	"patchbay/rspec/blueprint"
)

// LibraryName is the folder with the site's own types of blueprints, beside its inventory.
const LibraryName = "library"

// LibraryFolder returns the folder with the site's own types of blueprints.
func (c *Config) LibraryFolder() string {
	return filepath.Join(filepath.Dir(c.Inventory), LibraryName)
}

// LoadLibrary returns the standard types and those of the site.
func (c *Config) LoadLibrary() (*blueprint.Library, error) {
	return blueprint.LoadLibrary(c.LibraryFolder())
}
