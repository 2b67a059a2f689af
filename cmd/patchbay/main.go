package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/cmd/patchbay/command"
)

func main() {
	// No core dumps: memory has credentials and keys. Providers inherit the limit.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], command.Console{Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
