package main

import (
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"patchbay/inventory/local/testbed"
)

func cleanCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "clean SETTINGS",
		Short: "Remove everything of a testbed from this host",
		Long: `Remove everything of a testbed from this host: its nodes with all their files,
its images and keys, and what it holds of the host's numbers. The settings stay.
Stop "patchbay-local up" first. There is no way back.`,
		Args: cobra.ExactArgs(1),
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
			n := 0
			if err := testbed.Clean(ctx, o, func(string) { n++ }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "Nothing of the testbed %s is left; it had %d nodes.\n", o.Settings.Instance, n)
			return err
		},
	}
	site.add(c)
	return c
}
