package check

import (
	"context"
	"errors"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
	"patchbay/rspec/compile"
)

// source compiles a source for the site, and checks the resulting request.
func (k *Checker) source(ctx context.Context, name string, text []byte) {
	o := compile.Options{Parameters: k.Parameters, Work: rspec.NewWork(ctx)}
	if k.Config != nil {
		var err error
		if o.Site, err = k.Config.LoadInventory(); err != nil {
			k.Errors(err)
			return
		}
		if o.Library, err = k.Config.LoadLibrary(); err != nil {
			k.Errors(err)
			return
		}
	}
	if name != standardInput {
		folder, err := compile.OpenFolder(name)
		if err != nil {
			k.Errors(err)
			return
		}
		defer folder.Close()
		o.Files = folder
	}
	r := diagnosis{name: name, text: text}
	compiled, err := compile.Compile(text, o)
	if wrong, ok := errors.AsType[*compile.Error](err); ok {
		r.addProblems(wrong.Problems)
		k.report(&r)
		return
	}
	if err != nil {
		k.bad(name, "%v", err)
		return
	}
	r.addProblems(compiled.Remarks)
	r.terms = compiled.Terms
	k.request(ctx, &r, compiled.Request, nil)
}

// isBlueprint reports whether a document has components, but no other part of an inventory.
func isBlueprint(doc *yaml.Node) bool {
	var top struct {
		Components, Provider, Images yaml.Node
		SliverTypes                  yaml.Node `yaml:"sliver_types"`
	}
	return doc.Decode(&top) == nil && top.Components.Kind != 0 && top.Provider.Kind == 0 && top.Images.Kind == 0 && top.SliverTypes.Kind == 0
}
