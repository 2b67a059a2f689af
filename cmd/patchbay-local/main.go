package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/doctor"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/linktest"
	nodes "patchbay/inventory/local/node"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/vswitch"
)

func main() {
	// Keys are in memory: a core would outlive them.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// The program runs again as each of its parts. The first six do not return.
	switch filepath.Base(os.Args[0]) {
	case nodes.Argv0:
		nodes.Stage()
	case agent.Argv0:
		agent.Main()
	case gateway.Argv0:
		gateway.Main()
	case vswitch.Argv0:
		vswitch.Main()
	case setup.Argv0:
		setup.Main()
	case doctor.Argv0:
		doctor.Probe()
	case "geni-get":
		end(agent.GeniGet(os.Args[1:], os.Stdout))
	case linktest.Argv0:
		end(linktest.Main(os.Args[1:], os.Stdout))
	}
	end(command().Execute())
}

// end ends the program with a status that tells of err.
func end(err error) {
	status, isStatus := errors.AsType[exitStatus](err)
	switch {
	case err == nil:
		os.Exit(0)
	case isStatus:
		os.Exit(int(status))
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
