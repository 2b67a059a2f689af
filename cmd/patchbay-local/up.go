package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"patchbay/inventory"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/testbed"
)

func upCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "up SETTINGS",
		Short: "Run the nodes of a testbed",
		Long: `Create and supervise the nodes that the provider requests, until SIGINT or
SIGTERM. Nodes continue to run after this program ends, and its next start finds
them. After a reboot of the host they are started again from their disks.

SETTINGS is the provider's NAME.yaml; only root and the owner of that file may
request nodes. The log goes to standard error.`,
		Args: argumentCount(1, 1, "SETTINGS"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needRoot(); err != nil {
				return err
			}
			o, err := site.options(args[0])
			if err != nil {
				return err
			}
			if err := checkListenAddress(args[0], o.Settings.Listen); err != nil {
				return err
			}
			if lacks := local.MissingMetadata(args[0]); lacks != "" {
				o.Log.Warn("the settings are incomplete", "file", args[0], "reason", lacks)
			}
			signal.Ignore(syscall.SIGPIPE) // nodes must continue to run if the reader of the log ends
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

// checkListenAddress returns an error if this host does not have the address a. The address is
// the value of the key listen in the settings file path. The zero address means all addresses.
func checkListenAddress(path string, a netip.Addr) error {
	if !a.IsValid() {
		return nil
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("%s: listen is %s, which is no address of this host; write one that this prints: ip -brief address", path, a)
	}
	if err != nil {
		return fmt.Errorf("%s: cannot listen at %s: %w; write an address that this prints: ip -brief address", path, a, err)
	}
	return l.Close()
}

func (f *siteFlags) options(path string) (o testbed.Options, err error) {
	if o.Settings, o.State, err = f.read(path); err != nil {
		return o, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return o, fmt.Errorf("cannot read the settings: %w", err)
	}
	o.SettingsFile = local.SettingsPath(path)
	o.Facts = strings.TrimSuffix(path, ".yaml") + inventory.FactsSuffix
	file, err := filepath.Abs(path)
	if err != nil {
		return o, err
	}
	o.Catalogue = filepath.Join(filepath.Dir(filepath.Dir(file)), inventory.CatalogueFolder)
	o.SettingsOwner = int(info.Sys().(*syscall.Stat_t).Uid)
	if o.Program, err = os.Executable(); err != nil {
		return o, err
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return o, nil
}
