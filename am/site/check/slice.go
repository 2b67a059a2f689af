package check

import (
	"context"
	"slices"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/policy"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// SliceRequest is a request that becomes the whole content of a slice.
type SliceRequest struct {
	Name string // for messages
	Text []byte
	// Compiled means that Text was compiled from another language.
	Compiled bool
	// User is the owner of Slice. If both are zero, the policy is not checked.
	User, Slice urn.URN
}

// SliceRequest checks a request and prints the warnings about it. Errors are the reasons why the
// site would refuse the request: by its policy, or because the request would not fit even if the
// site had no other slivers. If deciding is true, SliceRequest also prints the errors. It reports
// whether there are no errors. If the process cannot read the site's files, it checks nothing and
// returns true.
func (k *Checker) SliceRequest(ctx context.Context, x SliceRequest, deciding bool) bool {
	inv, err := k.Config.LoadInventory()
	if err != nil {
		return true
	}
	plan, err := maintenance.Read(k.Config.Maintenance)
	if err != nil {
		return true
	}
	options := k.Config.ReadOptions(inv)
	r := diagnosis{name: x.Name, text: x.Text, compiled: x.Compiled}
	if req, err := r.parse(x.Text, options); err == nil {
		k.decide(ctx, &r, x, req, inv, plan)
	}
	if _, findings, err := validate(x.Text); err == nil && !x.Compiled {
		r.addFindings(findings)
	}
	if !deciding {
		r.list = slices.DeleteFunc(r.list, func(d diagnostic) bool { return d.isError })
	}
	k.printFindings(&r)
	return r.errors == 0
}

func (k *Checker) decide(ctx context.Context, r *diagnosis, x SliceRequest, req *rspec.Request, inv *inventory.Inventory, plan *maintenance.Plan) {
	rules, err := k.Config.LoadPolicy(inv)
	if err != nil || x.User.IsZero() {
		rules = nil
	}
	slice := x.Slice
	if slice.IsZero() {
		slice = checkSlice(inv)
	}
	before := r.errors
	req, binding, _ := k.preview(ctx, r, req, inv, plan, slice, policy.New(rules).For(x.User, x.Slice), false) // Allocate asks the providers
	held, err := k.Config.Held(ctx, x.User, x.Slice)
	if r.errors > before || err != nil {
		return
	}
	var all am.Amount
	for _, b := range binding.Nodes {
		all = all.Add(b.Amount)
	}
	whole := policy.Amount{Nodes: int64(len(req.Nodes)), Cores: all.Cores, Disk: all.Disk}
	if err := rules.CheckSlice(x.User, x.Slice, held, whole); err != nil {
		r.add(diagnostic{isError: true, text: err.Error()})
	}
}
