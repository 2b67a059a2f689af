package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/inside"
	"patchbay/inventory/node/setup"
)

func main() {
	// Memory holds private keys, which must not get into a core file.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// Inside a node, the program starts itself under other names. These functions do not return.
	switch filepath.Base(os.Args[0]) {
	case agent.Argv0:
		agent.Main()
	case setup.Argv0:
		setup.Main()
	}
	if len(os.Args) > 1 && os.Args[1] == inside.Verb {
		inside.Main(os.Args[2:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c, err := command().ExecuteContextC(ctx)
	stop()
	if err != nil {
		prefix := "patchbay-lxd"
		if c.Hidden {
			prefix = "error" // the server reads the log level of a line from the line's prefix
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", prefix, err)
		os.Exit(1)
	}
}
