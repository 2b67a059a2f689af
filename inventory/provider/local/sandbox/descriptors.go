package sandbox

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks all descriptors from lowest on as close-on-exec, also inherited ones.
func CloseOnExec(lowest int) error {
	if err := unix.CloseRange(uint(lowest), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("cannot mark descriptors to be closed by exec: %w", err)
	}
	return nil
}
