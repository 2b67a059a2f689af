//go:build manpages

package main

import (
	"io"

	"patchbay/cmd/manpages"
	"patchbay/cmd/patchbay/command"
)

func init() { manpages.Write(rootCommand(command.Console{Out: io.Discard, Err: io.Discard})) }
