//go:build manpages

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra/doc"
)

// tableLine matches the beginning of an indented line. With four more blanks, manual pages
// keep such a line unchanged.
var tableLine = regexp.MustCompile(`(?m)^ {2,}\S`)

// With the build tag "manpages", the program only writes its manual pages to the folder in
// its argument. Releases are built without the tag.
func init() {
	root := rootCommand(console{io.Discard, io.Discard})
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
