package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"patchbay/inventory"
)

// inForce compares an inventory, as it is in its file, with what is in force, and
// tells what it means for slivers that are there.
func (k *checker) inForce(ctx context.Context, c *Config, inv *inventory.Inventory) {
	r, served, err := c.reloadMeans(ctx, inv, k.usable(c.Providers))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // it has not served yet
	case err != nil:
		k.warn(c.Inventory, "what it means for slivers that are there cannot be told: %v", err)
		return
	}
	who := "serve"
	if served {
		who = "reload"
	}
	for _, line := range r.Wrong { // most of it was said already, in the words of the check
		if !slices.Contains(k.said, line) {
			k.bad("", "%s would refuse: %s", who, line)
		}
	}
	if len(r.Wrong) > 0 {
		return
	}
	for _, x := range r.Changes {
		k.note(r.File, "not in force yet: %s", x)
	}
	if r.MoreChanges > 0 {
		k.note(r.File, "not in force yet: %s more", plural(r.MoreChanges, "change"))
	}
	for _, x := range r.Meets {
		if x.Warning {
			k.warn(r.where(x), "%s", x)
		} else {
			k.note(r.where(x), "%s", x)
		}
	}
	for _, o := range r.Orphans {
		k.warn(c.Providers, "%s", o)
	}
	if r.More > 0 {
		k.warn(r.File, "and %d more consequences for slivers", r.More)
	}
	switch {
	case served && len(r.Changes) == 0:
		k.good(r.File, "in force as it is")
	case served:
		k.note(r.File, "what is not in force yet will be with patchbay reload, or at the next start")
	}
}

// reloadMeans tells what an inventory means: of a served site, or for the slivers in
// the store of one that is not. usable tells what is wrong with a provider of the latter.
// The error is fs.ErrNotExist where there is no store.
func (c *Config) reloadMeans(ctx context.Context, inv *inventory.Inventory, usable func(name string) error) (r *reloadReport, served bool, err error) {
	r = &reloadReport{File: c.Inventory}
	if err := askSite(ctx, c, "/reload", r); !errors.Is(err, errNotServed) {
		return r, true, err
	}
	if has, err := c.hasState(); err != nil {
		return r, false, err
	} else if !has {
		return r, false, fs.ErrNotExist
	}
	st, err := c.lookAtState()
	if err != nil {
		return r, false, err
	}
	slivers, err := st.Slivers()
	if err == nil {
		if clash := inventory.Clash(inv, c.Inventory, slivers); clash != nil {
			r.Wrong = errorLines(clash)
		} else {
			err = r.meet(nil, inv, st, usable)
		}
	}
	return r, false, errors.Join(err, st.Close())
}
