//go:build manpages

// Package manpages writes the manual pages of a program. Only builds with the tag "manpages" import
// it, which releases are not.
package manpages

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// tableLine matches the beginning of an indented line. With four more blanks, manual pages
// keep such a line unchanged.
var tableLine = regexp.MustCompile(`(?m)^ {2,}\S`)

// Write writes the manual pages to the folder in the program's argument, and ends the program.
func Write(root *cobra.Command) {
	root.DisableAutoGenTag = true // no date: the same pages from the same code
	for _, c := range append(root.Commands(), root) {
		c.Long = tableLine.ReplaceAllString(c.Long, "    $0")
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Patchbay", Manual: "Patchbay"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
