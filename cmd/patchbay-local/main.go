package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider/local/doctor"
	"patchbay/inventory/provider/local/gateway"
	nodes "patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/local/vswitch"
)

func main() {
	// Memory holds private keys, which must not get into a core file.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// Inside nodes the program is installed as sudo, with the setuid bit. A process with
	// these rights must only act as sudo, whatever its name is.
	if os.Getuid() != os.Geteuid() {
		agent.RunCommand(agent.SudoName, os.Args[1:])
	}
	// The testbed also runs its own processes from this binary; the program's name selects one.
	// A function Main or Stage that has no result does not return.
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
		doctor.ChildMain()
	}
	agent.RunCommand(filepath.Base(os.Args[0]), os.Args[1:])
	c, err := command().ExecuteC()
	prefix := "patchbay-local"
	if slices.Contains(providerCommands, c.Name()) {
		prefix = "error" // the server reads the log level of a line from the line's prefix
	}
	exit(prefix, err)
}

// exit prints the prefix and err, unless err is an exitStatus.
func exit(prefix string, err error) {
	status, isStatus := errors.AsType[exitStatus](err)
	switch {
	case err == nil:
		os.Exit(0)
	case isStatus:
		os.Exit(int(status))
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", prefix, err)
	os.Exit(1)
}
