//go:build manpages

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

// With the build tag manpages the program writes its manual pages into the folder
// that it gets as its only argument, and ends. The program that users get is built
// without the tag, so it carries no writer of manual pages.
func init() {
	root := command()
	root.DisableAutoGenTag = true // no date: the same pages from the same code
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Patchbay", Manual: "Patchbay"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
