package compile

import (
	"os"
	"path/filepath"

	"patchbay/rspec"
	"patchbay/rspec/blueprint"
	"patchbay/rspec/generate"
)

type blueprintDocument struct{ *blueprint.Document }

func parseBlueprint(text []byte) (document, []rspec.Problem) {
	d, problems := blueprint.Parse(text)
	if d == nil {
		return nil, problems
	}
	return blueprintDocument{d}, problems
}

// safe returns nothing: the language has no features for secrets.
func (b blueprintDocument) safe() ([]byte, []rspec.Problem) { return nil, nil }

func (b blueprintDocument) compile(o Options) (*generate.Request, []rspec.Problem) {
	return blueprint.Compile(b.Document, blueprint.Options{Site: o.Site, Library: o.Library, Files: o.Files, ContentDir: o.ContentDir, ContentURL: o.ContentURL, Nodes: o.Nodes, Links: o.Links})
}

// OpenFolder returns the files beside a source as Options.Files: those in its folder and below.
// Close the folder after the compilation.
func OpenFolder(source string) (*os.Root, error) { return os.OpenRoot(filepath.Dir(source)) }
