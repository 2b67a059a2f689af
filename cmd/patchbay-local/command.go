package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/simulated"
)

// providerCommands are the commands that act as a provider.
var providerCommands = []string{"behind", "local", "simulated"}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:               "patchbay-local",
		Short:             "Run Patchbay nodes as containers on this host",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(upCommand(), behindCommand(), doctorCommand(), cleanCommand(), listCommand(), enterCommand(), linktestCommand(), imageCommand(), versionCommand())
	for _, c := range []*cobra.Command{localCommand(), simulatedCommand(), initCommand()} {
		c.Hidden = true // only files NAME.prov and patchbay init call it
		root.AddCommand(c)
	}
	return root
}

type simulatedOptions struct {
	name string
}

func simulatedCommand() *cobra.Command {
	var o simulatedOptions
	c := &cobra.Command{
		Use:   "simulated --name NAME ral_action=ACTION",
		Short: "Act as the simulated provider: one call, JSON in and out",
		Long: `Act as the simulated provider: take one call (describe, get or set), read JSON
from standard input and write the answer to standard output.

NAME.yaml in the working directory holds the settings, NAME.state the nodes.
The server calls this through a file NAME.prov.`,
		Args: argumentCount(1, 1, "ral_action=ACTION"),
		RunE: func(c *cobra.Command, args []string) error {
			return simulated.Run(".", o.name, args[0], os.Stdin, os.Stdout)
		},
	}
	c.Flags().StringVar(&o.name, "name", "simulated", "name of this provider: the name of its file without .prov")
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, args []string) {
			fmt.Fprintln(c.OutOrStdout(), "patchbay-local", buildVersion())
		},
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
