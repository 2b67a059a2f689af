//go:build manpages

package main

import (
	"io"

	"patchbay/cmd/manpages"
)

func init() { manpages.Write(rootCommand(console{io.Discard, io.Discard})) }
