package check

import (
	"context"
	"errors"

	"patchbay/inventory"
	"patchbay/rspec/compile"
)

// source compiles a source for the site, and checks the resulting request.
func (k *Checker) source(ctx context.Context, name string, text []byte) {
	o := compile.Options{Parameters: k.Parameters}
	if k.Config != nil {
		var err error
		if o.Site, err = inventory.Load(k.Config.Inventory, k.Config.Authority); err != nil {
			k.Errors(err)
			return
		}
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
	r.compiled = true
	k.request(ctx, &r, compiled.Request, nil)
}
