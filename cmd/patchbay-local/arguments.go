package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// takes wants at least so many arguments, which are called so, and at most so
// many, where -1 is any number.
func takes(least, most int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			verb := "is"
			if least-len(args) > 1 {
				verb = "are"
			}
			return fmt.Errorf("%s %s missing; type: %s\nsee: %s --help", strings.Join(names[len(args):least], " and "), verb, c.UseLine(), c.CommandPath())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%q is too much; type: %s\nsee: %s --help", args[most], c.UseLine(), c.CommandPath())
		}
		return nil
	}
}
