package compile

import (
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

// withoutSecrets returns nothing: the language has no features for secrets.
func (b blueprintDocument) withoutSecrets() ([]byte, []rspec.Problem) { return nil, nil }

func (b blueprintDocument) toRequest(o Options) (*generate.Request, []rspec.Problem) {
	return blueprint.Compile(b.Document, blueprint.Options{Site: o.Site, Library: o.Library, Files: o.Files, ContentDir: o.ContentDir, ContentURL: o.ContentURL, Nodes: o.Nodes, Links: o.Links, Work: o.Work})
}
