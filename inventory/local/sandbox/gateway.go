package sandbox

import (
	"fmt"
	"os"
)

// Gateway makes the whole process, with all its threads, what the SSH gateway
// may be: user uid and group gid, both not 0, without other groups; no
// capabilities, no_new_privs, nobody's to look into, the gateway's filter.
// Descriptors it holds stay usable, and others can be received; by itself it can
// then make threads and pipes only, no files and no sockets. Any exec kills it. It needs root. After an error the process is
// something between and must end.
func Gateway(uid, gid int) error {
	if uid <= 0 || gid <= 0 {
		return fmt.Errorf("the gateway cannot run as user %d, group %d: both must be above 0", uid, gid)
	}
	return serve(uid, gid, gatewayFilter(os.Getpid()))
}
