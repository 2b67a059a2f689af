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
	"patchbay/inventory/local/ping"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/vswitch"
)

func main() {
	// Keys are in memory: a core would outlive them.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// A user of a node who has the rights of root, as the setuid copy gives them,
	// gets sudo, and nothing else by another name.
	if os.Getuid() != os.Geteuid() {
		agent.RunCommand(agent.SudoName, os.Args[1:])
	}
	// The program runs again as each of its parts. Those without end do not return.
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
	case ping.Argv0:
		os.Exit(ping.Main(os.Args[1:], os.Stdout, os.Stderr))
	case linktest.Argv0:
		end(linktest.Main(os.Args[1:], os.Stdout))
	}
	agent.RunCommand(filepath.Base(os.Args[0]), os.Args[1:])
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
