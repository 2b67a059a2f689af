package main

import (
	"fmt"
	"os"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/gateway"
	nodes "patchbay/inventory/local/node"
)

func main() {
	// The program runs again as each of its parts, which do not return.
	switch os.Args[0] {
	case nodes.Argv0:
		nodes.Stage()
	case agent.Argv0:
		agent.Main()
	case gateway.Argv0:
		gateway.Main()
	}
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
