package main

import (
	"os"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
)

func behindCommand() *cobra.Command {
	var name, other string
	c := &cobra.Command{
		Use:   "behind --name NAME --provider PROGRAM ral_action=ACTION",
		Short: "Run another provider and offer its nodes through this testbed's gateway",
		Long: `Run another provider, PROGRAM, unchanged, and give its nodes the same endpoints as
containers: a port for each, and the gateway account. The nodes' own SSH servers
answer there.

NAME.yaml in the working directory names the testbed in its key instance; its other
keys belong to PROGRAM. PROVIDER.md says how to set it up. The server calls this through
a file NAME.prov such as:

  #!/bin/sh
  exec patchbay-local behind --name racked --provider ./rack.real "$@"`,
		Args: argumentCount(1, 1, "ral_action=ACTION"),
		RunE: func(_ *cobra.Command, args []string) error {
			return local.RunBehind(".", name, other, args[0], os.Stdin, os.Stdout)
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of this provider: the name of its file without .prov")
	c.Flags().StringVar(&other, "provider", "", "the other provider's executable")
	for _, flag := range []string{"name", "provider"} {
		if err := c.MarkFlagRequired(flag); err != nil {
			panic(err) // the flag was defined above
		}
	}
	return c
}
