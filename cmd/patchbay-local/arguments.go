package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// argumentCount returns a check of the number of arguments, which must be from least to
// most; if most is -1, there is no upper limit. names are the names of the arguments in the
// error.
func argumentCount(least, most int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			verb := "is"
			if least-len(args) > 1 {
				verb = "are"
			}
			return fmt.Errorf("%s %s missing; type: %s\nsee: %s --help", strings.Join(names[len(args):least], " and "), verb, c.UseLine(), c.CommandPath())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q; type: %s\nsee: %s --help", args[most], c.UseLine(), c.CommandPath())
		}
		return nil
	}
}
