package sandbox

import (
	"fmt"
	"runtime"
)

// Node restricts the calling thread to the rights of a node's processes. It first installs the
// filter of system calls, and then drops capabilities, because installing the filter needs
// CAP_SYS_ADMIN in the user namespace. Without this capability, the filter would need
// no_new_privs, under which sudo, su and ping do not work.
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
