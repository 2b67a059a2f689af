package sandbox

import (
	"fmt"
	"runtime"
)

// Node restricts the calling thread to what a node's processes may do: first the filter
// of system calls, then the capabilities. The order matters, because the filter needs
// CAP_SYS_ADMIN in the user namespace. With it, the filter can be installed without
// no_new_privs, under which sudo, su and ping would not work.
//
// Node locks the goroutine to its thread. This thread must call exec next, because only
// it is restricted. Create all mounts and namespaces before the call. Open files stay open
// (see CloseOnExec).
func Node() error {
	runtime.LockOSThread()
	if err := install(nodeFilter(), 0); err != nil {
		return fmt.Errorf("cannot install the filter of system calls: %w (it needs CAP_SYS_ADMIN in the user namespace, and a kernel with CONFIG_SECCOMP_FILTER)", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("cannot drop capabilities: %w", err)
	}
	return nil
}
