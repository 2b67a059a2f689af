package check

import (
	"context"
	"slices"
	"strings"

	"patchbay/am/urn"
)

// Warnings prints the warnings about the request that becomes the whole content of a slice. name is
// for messages. terms is that of the source from which text was compiled; nil if it was not. If the
// process cannot read the site's files, Warnings prints nothing.
func (k *Checker) Warnings(ctx context.Context, name string, text []byte, terms *strings.Replacer, slice urn.URN) {
	inv, plan, err := k.load()
	if err != nil {
		return
	}
	if slice.IsZero() {
		slice = checkSlice(inv)
	}
	r := diagnosis{name: name, text: text, terms: terms}
	if req, err := r.parse(text, k.Config.ReadOptions(inv)); err == nil {
		k.preview(ctx, &r, req, inv, plan, slice, false) // Allocate asks the providers
	}
	if _, findings, err := validate(text); err == nil && terms == nil {
		r.addFindings(findings)
	}
	r.list = slices.DeleteFunc(r.list, func(d diagnostic) bool { return d.isError })
	k.printFindings(&r)
}
