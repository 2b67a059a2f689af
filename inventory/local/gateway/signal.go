package gateway

import (
	"strings"

	"golang.org/x/sys/unix"
)

// known tells whether RFC 4254, 6.10 has a name for a signal.
func known(number int) bool {
	switch unix.Signal(number) {
	case unix.SIGABRT, unix.SIGALRM, unix.SIGFPE, unix.SIGHUP, unix.SIGILL, unix.SIGINT, unix.SIGKILL,
		unix.SIGPIPE, unix.SIGQUIT, unix.SIGSEGV, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2:
		return true
	}
	return false
}

// signalName is the name of a signal in the protocol.
func signalName(number int) string {
	name := strings.TrimPrefix(unix.SignalName(unix.Signal(number)), "SIG")
	switch {
	case known(number):
		return name
	case name == "":
		return "UNKNOWN@openssh.com"
	}
	return name + "@openssh.com"
}

// signalNumber is the signal that a peer may send by name, or 0.
func signalNumber(name string) int {
	if len(name) > 8 {
		return 0
	}
	number := int(unix.SignalNum("SIG" + name))
	if !known(number) {
		return 0
	}
	return number
}
