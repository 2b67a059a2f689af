package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that ends with f, so that changes to the thread have no
// further effect. It does not use the main thread, which cannot end.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: a locked thread ends with its goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		defer runtime.UnlockOSThread()
		done <- onThread(f) // while this goroutine holds the main thread, f runs on another
	}()
	return <-done
}
