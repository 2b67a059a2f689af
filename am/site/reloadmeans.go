package site

import (
	"context"
	"errors"
	"io/fs"

	"patchbay/inventory"
)

// ReloadMeans tells what an inventory means: of a served site, or for the slivers in
// the store of one that is not. usable tells what is wrong with a provider of the latter.
// The error is fs.ErrNotExist where there is no store.
func (c *Config) ReloadMeans(ctx context.Context, inv *inventory.Inventory, usable func(name string) error) (r *ReloadReport, served bool, err error) {
	r = &ReloadReport{File: c.Inventory}
	if err := Ask(ctx, c, "/reload", r); !errors.Is(err, ErrNotServed) {
		return r, true, err
	}
	if has, err := c.HasState(); err != nil {
		return r, false, err
	} else if !has {
		return r, false, fs.ErrNotExist
	}
	st, err := c.LookAtState()
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
