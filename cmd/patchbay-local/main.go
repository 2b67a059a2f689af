// Patchbay-local is what runs beside a Patchbay server on its host: the
// simulated provider, in one static binary without cgo.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
