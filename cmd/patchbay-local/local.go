package main

import (
	"os"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
)

func localCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "local --name NAME ral_action=ACTION",
		Short: "Act as the provider of the local testbed: one call, JSON in and out",
		Long: `Act as the provider of the local testbed: take one call (describe, get or set),
pass it to the testbed's socket and write the answer to standard output. It
needs no special rights; "patchbay-local up" creates the nodes.

NAME.yaml in the working directory holds the settings. The server calls this
through a file NAME.prov.`,
		Args: argumentCount(1, 1, "ral_action=ACTION"),
		RunE: func(_ *cobra.Command, args []string) error {
			return local.Run(".", name, args[0], os.Stdin, os.Stdout)
		},
	}
	c.Flags().StringVar(&name, "name", "local", "name of this provider: the name of its file without .prov")
	return c
}
