package clock

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host provides the clocks of a host.
type Host struct {
	// Boot identifies the present boot of the host; "" if it is unknown.
	Boot string
	// Read returns the wall clock, and the time since the boot, suspended time
	// included.
	Read func() (wall time.Time, steady time.Duration)
	// Synced reports whether a time service has synchronized the wall clock.
	Synced func() bool
}

// System returns the host of this process. It fails if the host has no steady clock.
func System() (Host, error) {
	if _, err := sinceBoot(); err != nil {
		return Host{}, fmt.Errorf("the time since the boot (CLOCK_BOOTTIME) cannot be read: %w; a kernel of Linux 2.6.39 or later has it", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil
	}
	return Host{Boot: strings.TrimSpace(string(boot)), Read: read, Synced: synced}, nil
}

const (
	// maxReadingTime is the time within which read must read both clocks.
	maxReadingTime = 10 * time.Millisecond
	// maxReadings limits the attempts of read, which repeats a reading if the process was
	// interrupted between the clocks.
	maxReadings = 10
)

// read reads the wall clock and the time since the boot at nearly the same moment.
func read() (wall time.Time, steady time.Duration) {
	before, _ := sinceBoot()
	for range maxReadings {
		wall = time.Now().Round(0)
		steady, _ = sinceBoot()
		if steady-before < maxReadingTime {
			break
		}
		before = steady
	}
	return wall, steady
}

// sinceBoot includes suspended time.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}

// synced asks the kernel whether a time service has synchronized the clock. Setting the
// clock by hand clears that state.
func synced() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
