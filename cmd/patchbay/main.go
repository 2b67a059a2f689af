package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	// Credentials and keys are in memory, and in that of providers, which inherit
	// this: a core would outlive them.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], console{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}
