package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

const thawLong = `Lift the Shutdown of a slice, whose nodes have been kept for inspection: they are
the experimenters' again, switched off, and their leases count; those that are
over end when the site is served again. SLICE is its URN, or its name if no other
that is shut down has the same. Without SLICE, list what is shut down.

The site must not be served meanwhile.`

type thawOptions struct {
	site  siteFlag
	Slice string // a URN, or the name of a slice that is shut down
}

func (o *thawOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *thawOptions) Validate(args []string) (err error) {
	if len(args) == 0 {
		return nil
	}
	if o.Slice, err = oneArgument(args, "the slice's URN or name"); err != nil {
		return err
	}
	if u, err := urn.Parse(o.Slice); err == nil && u.Type != urn.Slice {
		return fmt.Errorf("%s is a %s, not a slice", u, u.Type)
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
	down, err := shutDown(s)
	if err != nil {
		return err
	}
	if o.Slice == "" {
		listShutdown(down, c)
		return nil
	}
	slice, err := choose(o.Slice, down)
	if err != nil {
		return err
	}
	var slivers []am.Sliver
	err = s.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		if slivers, err = lease.Thaw(v, &cs, slice); err == nil {
			cs.Log(am.JournalEntry{At: v.Now(), Event: "thaw", Slice: slice})
		}
		return cs, err
	})
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no slice %s here", slice)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Slice %s is no longer shut down; it has %s.\n", slice, plural(len(slivers), "sliver"))
	return nil
}

// shutDown gives the slices that are shut down.
func shutDown(s *store.Store) (list []am.Slice, err error) {
	err = s.Read(func(v *store.View) error {
		return v.Slices(func(x am.Slice) bool {
			if !x.Shutdown.IsZero() {
				list = append(list, x)
			}
			return true
		})
	})
	return list, err
}

// choose finds the slice that a URN, or a name among those shut down, means.
func choose(said string, down []am.Slice) (urn.URN, error) {
	if u, err := urn.Parse(said); err == nil {
		return u, nil
	}
	var found, names []string
	var slice urn.URN
	for _, x := range down {
		names = append(names, x.URN.Name)
		if strings.EqualFold(x.URN.Name, said) {
			slice, found = x.URN, append(found, x.URN.String())
		}
	}
	switch len(found) {
	case 0:
		return slice, fmt.Errorf("%s is neither the URN of a slice nor the name of one that is shut down; %sname it by its URN", said, instead(said, names))
	case 1:
		return slice, nil
	}
	return slice, fmt.Errorf("several slices of the name %s are shut down: %s; name one by its URN", said, strings.Join(found, ", "))
}

// listShutdown prints a line for each slice that is shut down.
func listShutdown(down []am.Slice, c console) {
	for _, x := range down {
		fmt.Fprintf(c.out, "%s  shut down at %s by %s\n", x.URN, x.Shutdown.Format(time.RFC3339), x.ShutdownBy)
	}
	if len(down) == 0 {
		fmt.Fprintln(c.out, "No slice is shut down.")
	}
}
