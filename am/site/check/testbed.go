package check

import (
	"context"
	"errors"
	"slices"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/local"
)

// testbed checks what a local testbed needs beside its provider; false says that
// its provider need not be asked.
func (k *Checker) testbed(ctx context.Context, t *site.Testbed, inv *inventory.Inventory, wrong error) bool {
	if wrong != nil {
		k.bad(t.Settings, "%v", wrong)
		return false
	}
	if lacks := local.Outdated(t.Settings); lacks != "" {
		k.warn(t.Settings, "%s", lacks)
	}
	list, err := t.List(ctx, local.Socket)
	switch {
	case errors.Is(err, local.ErrDown):
		k.warn(t.Settings, "the local testbed %s does not run, so no node can be made; serve starts it when it runs as root, else type: %s (and %s says whether this host can run nodes)",
			t.Instance, display.AsRoot(t.Command()...), display.AsRoot(t.Program, "doctor"))
	case err != nil:
		k.warn(t.Settings, "the local testbed %s runs, but cannot be asked: %v", t.Instance, err)
	default:
		k.good(t.Settings, "the local testbed %s runs", t.Instance)
		for _, name := range missingImages(t.Provider, inv, list.Images) {
			k.warn(t.Settings, "the inventory offers the image %s, which the testbed does not have, so nodes with it will fail; add it: %s",
				name, display.AsRoot(t.Program, "image", "add", t.Settings, name))
		}
		return true
	}
	return false
}

// missingImages are those that the inventory offers on components of a provider,
// and that are not there. A testbed that does not tell which are is believed.
func missingImages(provider string, inv *inventory.Inventory, there []string) (missing []string) {
	if inv == nil || len(there) == 0 {
		return nil
	}
	for _, c := range inv.Components {
		for _, t := range c.SliverTypes {
			for _, i := range t.Images {
				if c.Provider == provider && !slices.Contains(there, i.Name) && !slices.Contains(missing, i.Name) {
					missing = append(missing, i.Name)
				}
			}
		}
	}
	return missing
}
