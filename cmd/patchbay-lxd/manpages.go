//go:build manpages

package main

import "patchbay/cmd/manpages"

func init() { manpages.Write(command()) }
