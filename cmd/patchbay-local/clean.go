package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local/testbed"
)

func cleanCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "clean SETTINGS",
		Short: "Remove everything of a testbed from this host",
		Long: `Remove everything of a testbed from this host: its nodes with all their files,
its images and keys, the networks of its links, and its user ids and ports. The settings stay.
Stop "patchbay-local up" first. This cannot be undone.`,
		Args: argumentCount(1, 1, "SETTINGS"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needRoot(); err != nil {
				return err
			}
			o, err := site.options(args[0])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			_, err = os.Lstat(o.State)
			nothing := errors.Is(err, fs.ErrNotExist)
			n := 0
			if err := testbed.Clean(ctx, o, func(string) { n++ }); err != nil {
				return err
			}
			if nothing {
				_, err = fmt.Fprintf(c.OutOrStdout(), "There was nothing in %s, where the state of the testbed %s would be.\nIf up ran with --state DIR, add that flag here, too: its nodes and files are there.\n", o.State, o.Settings.Instance)
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "Nothing of the testbed %s is left in %s, nor elsewhere on this host; it had %s.\n", o.Settings.Instance, o.State, countNodes(n))
			return err
		},
	}
	site.add(c)
	return c
}
