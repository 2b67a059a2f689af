package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/inventory/local"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serve starts the server in the background unless it is running, and waits for its first
// answer.
func (o ownSite) serve(ctx context.Context, c console) error {
	config, err := o.read()
	if err != nil {
		return err
	}
	if site.IsServed(ctx, config) {
		return nil
	}
	if config, err = o.choosePort(config); err != nil {
		return err
	}
	return o.start(ctx, config)
}

var listenLine = regexp.MustCompile(`(?m)^(listen|public_url): .*$`)

// choosePort writes another port to the configuration if another program uses the site's
// port.
func (o ownSite) choosePort(config *site.Config) (*site.Config, error) {
	l, err := net.Listen("tcp", config.Listen)
	if err == nil {
		return config, l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return config, nil // the server reports the error
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.file())
	if err != nil {
		return nil, err
	}
	text = listenLine.ReplaceAllFunc(text, func(line []byte) []byte {
		if bytes.HasPrefix(line, []byte("listen")) {
			return strconv.AppendQuote([]byte("listen: "), address)
		}
		return strconv.AppendQuote([]byte("public_url: "), "https://"+address)
	})
	if err := site.ReplaceFile(o.file(), text, 0o644); err != nil {
		return nil, err
	}
	return o.read()
}

// maxOwnLog is in bytes. At the next start, a larger log is deleted.
const maxOwnLog = 4 << 20

// start waits until the server answers.
func (o ownSite) start(ctx context.Context, config *site.Config) error {
	name := filepath.Join(o.dir, ownLog)
	flags := os.O_APPEND
	if info, err := os.Stat(name); err == nil && info.Size() > maxOwnLog {
		flags = os.O_TRUNC
	}
	log, err := openPrivate(name, flags)
	if err != nil {
		return err
	}
	defer log.Close()
	begins, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	if _, err := o.program("patchbay-local"); err != nil { // updates root's copy
		return err
	}
	program, err := o.program("patchbay")
	if err != nil {
		return err
	}
	ended, err := startServer(program, o.file(), log)
	if err != nil {
		return err
	}
	for !site.IsServed(ctx, config) {
		select {
		case err := <-ended:
			return fmt.Errorf("the server of your own site ended at once: %w\n%s\nits whole log is %s; if the site cannot be repaired, remove it with: %s",
				err, endOf(name, begins), name, o.downAll())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return o.awaitTestbed(ctx)
}

// awaitTestbed waits at most 15 s. The server starts the testbed.
func (o ownSite) awaitTestbed(ctx context.Context) error {
	bed, err := site.OpenTestbed(filepath.Join(o.dir, site.ProvidersDir), create.Local)
	if bed == nil || err != nil {
		return nil // the server's log has the error
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for ctx.Err() == nil && !bed.Runs(ctx, local.Socket) {
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// endOf returns at most ten lines, and none before the offset in bytes.
func endOf(name string, offset int64) string {
	const most = 10
	text, err := site.ReadRegular(name)
	if err != nil || int64(len(text)) < offset {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text[offset:])), "\n")
	return display.Printable("  " + strings.Join(lines[max(0, len(lines)-most):], "\n  "))
}

func (o ownSite) downAll() string {
	if o.userFolder() != "" {
		return display.AsRoot(display.Program, "down", "--all")
	}
	return display.Command("down", "--all")
}

func (o ownSite) remove(ctx context.Context, c console) error {
	if exists(o.dir) {
		if err := o.removeSite(ctx, c); err != nil {
			return err
		}
	}
	if !isUserFolder(o.home) {
		return nil
	}
	return errors.Join(clearFolder(o.home), removeFile(o.home))
}

func (o ownSite) removeSite(ctx context.Context, c console) error {
	unlock, err := lockFolder(ctx, o.dir, c)
	if err != nil {
		return err
	}
	defer unlock()
	if config, err := o.read(); err == nil {
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := site.StopServer(stopping, config); err != nil {
			return err
		}
	}
	if o.isLocal() {
		bed, err := site.OpenTestbed(filepath.Join(o.dir, site.ProvidersDir), create.Local)
		switch {
		case bed == nil:
			return fmt.Errorf("nothing was removed: cannot find the nodes of the site in %s, since its providers/local.prov or local.yaml was changed (%v); /var/lib/patchbay-local has the testbeds of this host; remove one with: patchbay-local clean SETTINGS", o.dir, err)
		case err != nil:
			return err
		}
		if out, err := runHelper(ctx, "patchbay-local", "clean", bed.Settings); err != nil {
			return fmt.Errorf("cannot remove the nodes; repeat the command: %w\n%s", err, out)
		}
	}
	return errors.Join(clearFolder(o.dir), os.Remove(o.dir))
}
