package sandbox

import (
	"fmt"
	"runtime"
)

// Node makes the calling thread what a node's processes may be: filter of
// system calls, then bounding set and capabilities cut down. In this order, for
// the filter needs CAP_SYS_ADMIN in the user name space: so it can be installed
// without no_new_privs, under which sudo, su and ping would not work.
//
// The goroutine stays on its thread, which must exec next: all of that is of
// threads, and the others are as they were until exec ends them. All
// mounts and name spaces are to be made before; what is open stays open (see
// CloseOnExec).
func Node() error {
	runtime.LockOSThread()
	if err := install(nodeFilter(), 0); err != nil {
		return fmt.Errorf("cannot install the filter of system calls: %w (it needs CAP_SYS_ADMIN in the user name space, and a kernel with CONFIG_SECCOMP_FILTER)", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("cannot drop capabilities: %w", err)
	}
	return nil
}
