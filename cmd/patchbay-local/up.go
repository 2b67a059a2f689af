package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"patchbay/inventory/local/testbed"
)

func upCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "up SETTINGS",
		Short: "Make the nodes of a testbed, and keep them",
		Long: `Make the nodes that the provider is asked for, and keep them, until SIGINT or
SIGTERM. Nodes outlive this program, however it ends: the next one finds them.
After a boot of the host they are started again from their disks.

SETTINGS is the provider's NAME.yaml; besides root only its owner may ask for
nodes. The log goes to standard error.`,
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
			t, err := testbed.Open(o)
			if err != nil {
				return err
			}
			return t.Run(ctx)
		},
	}
	site.add(c)
	return c
}

// options are those of the testbed of a settings file.
func (f *siteFlags) options(path string) (o testbed.Options, err error) {
	if o.Settings, o.State, err = f.read(path); err != nil {
		return o, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return o, fmt.Errorf("cannot read the settings: %w", err)
	}
	o.SettingsOwner = int(info.Sys().(*syscall.Stat_t).Uid)
	if o.Program, err = os.Executable(); err != nil {
		return o, err
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return o, nil
}
