package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// argumentCount refuses too few and too many arguments; a maximum of -1 is no limit. names are the names of the
// arguments for the error.
func argumentCount(minimum, maximum int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < minimum:
			verb := "is"
			if minimum-len(args) > 1 {
				verb = "are"
			}
			return fmt.Errorf("%s %s missing; type: %s\nsee: %s --help", strings.Join(names[len(args):minimum], " and "), verb, c.UseLine(), c.CommandPath())
		case maximum >= 0 && len(args) > maximum:
			return fmt.Errorf("unexpected argument %q; type: %s\nsee: %s --help", args[maximum], c.UseLine(), c.CommandPath())
		}
		return nil
	}
}
