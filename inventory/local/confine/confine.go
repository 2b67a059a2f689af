package confine

import "errors"

var errNotBuilt = errors.New("not built yet")

// Node makes the calling thread what a node's processes may be: bounding set
// and capabilities cut down, seccomp filter of nodes installed. It needs
// CAP_SYS_ADMIN in its user namespace and leaves no_new_privs off, so that
// sudo works. The thread must exec next.
func Node() error { return errNotBuilt }

// Gateway makes the whole process what the SSH gateway may be: user and group
// id, no capabilities, no_new_privs, seccomp filter. Descriptors it holds stay
// usable.
func Gateway(uid, gid int) error { return errNotBuilt }

// CloseOnExec marks all descriptors from first on to be closed by exec.
func CloseOnExec(first int) error { return errNotBuilt }
