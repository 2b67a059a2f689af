package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// aside runs f on a thread that ends with it, so that what f does to its thread
// is gone afterwards. The main thread would not end, and is passed by.
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
