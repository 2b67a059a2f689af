package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/am/store"
)

const moveLong = `Make a copy of a site the site. A server acts on nodes by what its store promises, so
two servers with copies of one store would remove each other's nodes. Therefore the
store remembers its file and its machine: mv within a file system is noticed by
nobody, but a store that was copied (cp, rsync, another disk, another machine) is
refused until this command is run for the copy.

Make sure first that the site it was copied from is not served any more: on this
machine the command looks for its server, on others it cannot. This site must not be
served meanwhile. To look at a copy, use: patchbay serve --read-only`

type moveOptions struct{ site siteFlag }

func (o *moveOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *moveOptions) Validate(args []string) error { return noArguments(args) }

func (o *moveOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	if has, err := config.HasState(); err != nil {
		return err
	} else if !has {
		return fmt.Errorf("there is no %s: %w", config.State, site.ErrNeverServed)
	}
	report, err := store.Check(config.State)
	if err != nil {
		return err
	}
	if report.Copy == "" {
		fmt.Fprintf(c.out, "%s is no copy; nothing was changed.\n", config.State)
		return nil
	}
	if by := site.StoreHolder(report.Inode); by != "" {
		return fmt.Errorf("the site that this one was copied from is served %s, and two servers must not act on the same nodes; stop it first", by)
	}
	s, err := store.Open(config.State, store.Options{Site: config.Authority, Move: true})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	recordAct(ctx, c, config, "move", report.Copy)
	fmt.Fprintf(c.out, "%s is the store of the site from now on.\nDo not serve the one that it was copied from any more: both would act on the same nodes.\n", config.State)
	return nil
}
