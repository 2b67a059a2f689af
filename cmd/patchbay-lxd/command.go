package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"patchbay/inventory/lxd"
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use:               "patchbay-lxd",
		Short:             "Run Patchbay nodes as containers of an LXD or Incus cluster",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(setupCommand(), runCommand(), workCommand(), versionCommand())
	return root
}

// place is where a provider has its files.
type place struct {
	name, socket string
}

func (p *place) add(c *cobra.Command) {
	c.Flags().StringVar(&p.name, "name", "lxd", "name of this provider: the name of its file without .prov")
}

func setupCommand() *cobra.Command {
	var p place
	var links int
	c := &cobra.Command{
		Use:   "setup DIR/providers",
		Short: "Prepare the cluster for a site, as root on one of its members",
		Long: `Prepare the cluster, as root on a member, while all members are up. It makes the project, the
bridges for links, a certificate that is restricted to the project, and in the folder of
providers NAME.yaml and NAME.prov. What is there already stays as it is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return lxd.Setup(c.Context(), lxd.SetupOptions{Dir: dir, Name: p.name, Socket: p.socket, Links: links, Program: program, Progress: func(format string, args ...any) {
				fmt.Fprintf(c.OutOrStdout(), format+"\n", args...)
			}})
		},
	}
	p.add(c)
	c.Flags().IntVar(&links, "links", 200, "number of bridges for links; each link of all slices together takes one")
	c.Flags().StringVar(&p.socket, "socket", "", "the server's Unix socket (default: the usual one)")
	return c
}

func runCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:    "run --name NAME ral_action=ACTION",
		Short:  "Act as the provider: one call, JSON in and out",
		Hidden: true, // only files NAME.prov call it
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return lxd.Run(".", p.name, args[0], os.Stdin, os.Stdout)
		},
	}
	p.add(c)
	return c
}

func workCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:    "work --name NAME",
		Short:  "Carry out what the server has requested, until nothing is left",
		Hidden: true, // only the provider starts it
		Args:   cobra.NoArgs,
		RunE:   func(c *cobra.Command, _ []string) error { return lxd.Work(c.Context(), ".", p.name) },
	}
	p.add(c)
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(c *cobra.Command, args []string) { fmt.Fprintln(c.OutOrStdout(), "patchbay-lxd", buildVersion()) },
	}
}

// version is set by the linker (-X main.version=…) in a release.
var version string

func buildVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}
