package site

import (
	"path/filepath"

	"patchbay/am/service"
	"patchbay/rspec"
	"patchbay/rspec/blueprint"
	"patchbay/rspec/compile"
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

// expand compiles a template of a request.
func (c *Config) expand(t rspec.Template, known service.Known) (rspec.Expansion, error) {
	o := compile.Options{Site: known.Inventory, Nodes: known.Nodes, Links: known.Links, GivesAddresses: true, Work: known.Work}
	if t.Language == compile.Blueprint {
		var err error
		if o.Library, err = c.LoadLibrary(); err != nil {
			return rspec.Expansion{}, err
		}
	}
	return compile.Expand(t, known.Earlier, o)
}
