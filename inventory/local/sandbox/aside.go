package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// aside runs f on a thread that ends with f, so that changes to the thread have no
// further effect. The main thread is not used, since it cannot end.
func aside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: a thread that is locked ends with its goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		defer runtime.UnlockOSThread()
		done <- aside(f) // while this holds the main thread, it goes elsewhere
	}()
	return <-done
}
