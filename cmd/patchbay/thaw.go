package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

const thawLong = `Lift the Shutdown of a slice, whose nodes have been kept for inspection: they are
the experimenters' again, switched off, and their leases count; those that are
over end when the site is served again. Without SLICE, list what is shut down.

The site must not be served meanwhile.`

type thawOptions struct {
	site  siteFlag
	Slice urn.URN
}

func (o *thawOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *thawOptions) Validate(args []string) (err error) {
	if len(args) == 0 {
		return nil
	}
	name, err := oneArgument(args, "the slice's URN")
	if err != nil {
		return err
	}
	if o.Slice, err = urn.Parse(name); err != nil {
		return fmt.Errorf("%w; without SLICE, this command lists those that are shut down", err)
	}
	if o.Slice.Type != urn.Slice {
		return fmt.Errorf("%s is a %s, not a slice", o.Slice, o.Slice.Type)
	}
	return nil
}

func (o *thawOptions) Run(ctx context.Context, c console) error {
	config, _, err := o.site.read()
	if err != nil {
		return err
	}
	s, err := store.Open(config.State, store.Options{Site: config.Authority})
	if err != nil {
		return err
	}
	defer s.Close()
	if o.Slice.IsZero() {
		return listShutdown(s, c)
	}
	var slivers []am.Sliver
	err = s.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		if slivers, err = lease.Thaw(v, &cs, o.Slice); err == nil {
			cs.Log(am.JournalEntry{At: v.Now(), Event: "thaw", Slice: o.Slice})
		}
		return cs, err
	})
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no slice %s here", o.Slice)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Slice %s is no longer shut down; it has %d slivers.\n", o.Slice, len(slivers))
	return nil
}

// listShutdown prints a line for each slice that is shut down.
func listShutdown(s *store.Store, c console) error {
	none := true
	err := s.Read(func(v *store.View) error {
		return v.Slices(func(x am.Slice) bool {
			if !x.Shutdown.IsZero() {
				none = false
				fmt.Fprintf(c.out, "%s  shut down at %s by %s\n", x.URN, x.Shutdown.Format(time.RFC3339), x.ShutdownBy)
			}
			return true
		})
	})
	if err == nil && none {
		fmt.Fprintln(c.out, "No slice is shut down.")
	}
	return err
}
