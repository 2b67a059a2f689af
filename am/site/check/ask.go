package check

import (
	"context"
	"log/slog"
	"slices"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/dryrun"
	"patchbay/am/service"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/rspec"
)

// ask asks the providers whose metadata say probe: true whether they would make
// what was bound. What they cannot make at all is an error; what they would not
// make now, and that one has no answer, is a warning. The names are of those that
// were asked and have nothing against it.
func (k *Checker) ask(ctx context.Context, r *diagnosis, req *rspec.Request, inv *inventory.Inventory, b binder.Binding) (content []string) {
	providers, _ := provider.Load(k.Config.Providers) // what is wrong with one is said by the check of the site
	set := site.ProviderSet{Found: providers}
	inForce := func() *inventory.Inventory { return inv }
	of := site.Components(inForce)
	log := slog.New(slog.NewTextHandler(k.Err, nil))
	for _, p := range providers {
		p.Log = log
	}
	for i := range b.Nodes {
		_, name, ok := of(b.Nodes[i].Component.URN)
		if _, asks := set.Probing(name); ok && asks && !slices.Contains(content, name) {
			content = append(content, name)
		}
	}
	if len(content) == 0 {
		return nil
	}
	prober := dryrun.New(dryrun.Config{Components: of, Interfaces: site.Interfaces(inForce), Providers: set.Probing, Log: log})
	reasons := service.Ask(ctx, prober, inv, req, nobodys(inv), b)
	for _, reason := range reasons {
		lasts := reason.Code == am.Unsupported
		if !lasts {
			reason.Text += "; that is so now, and Allocate asks again"
		}
		r.reason(req, reason, lasts)
	}
	if len(reasons) > 0 {
		return nil
	}
	slices.Sort(content)
	return content
}
