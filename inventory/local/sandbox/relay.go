package sandbox

import (
	"fmt"
	"os"
)

// Relay makes the whole process, with all its threads, what the relay of frames
// may be: as Gateway, with the relay's filter. Descriptors it holds stay usable,
// and others can be received; by itself it can then make threads only. It must
// have made what it waits with. It needs root. After an error the process is
// something between and must end.
func Relay(uid, gid int) error {
	if uid <= 0 || gid <= 0 {
		return fmt.Errorf("the relay cannot run as user %d, group %d: both must be above 0", uid, gid)
	}
	return serve(uid, gid, relayFilter(os.Getpid()))
}
