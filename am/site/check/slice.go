package check

import (
	"context"
	"slices"

	"patchbay/am/maintenance"
	"patchbay/am/urn"
)

// Warnings prints the warnings about the request that becomes the whole content of a slice. name is
// for messages. isCompiled means that text was compiled from another language. If the process cannot
// read the site's files, Warnings prints nothing.
func (k *Checker) Warnings(ctx context.Context, name string, text []byte, isCompiled bool, slice urn.URN) {
	inv, err := k.Config.LoadInventory()
	if err != nil {
		return
	}
	plan, err := maintenance.Read(k.Config.Maintenance)
	if err != nil {
		return
	}
	if slice.IsZero() {
		slice = checkSlice(inv)
	}
	r := diagnosis{name: name, text: text, compiled: isCompiled}
	if req, err := r.parse(text, k.Config.ReadOptions(inv)); err == nil {
		k.preview(ctx, &r, req, inv, plan, slice, false) // Allocate asks the providers
	}
	if _, findings, err := validate(text); err == nil && !isCompiled {
		r.addFindings(findings)
	}
	r.list = slices.DeleteFunc(r.list, func(d diagnostic) bool { return d.isError })
	k.printFindings(&r)
}
