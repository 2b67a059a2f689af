package ownsite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/create"
)

// serve starts the server in the background unless it is running, and waits for its first
// answer.
func (o Site) serve(ctx context.Context, messages io.Writer) error {
	config, err := o.Read()
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
func (o Site) choosePort(config *site.Config) (*site.Config, error) {
	l, err := net.Listen("tcp", config.Listen)
	if err == nil {
		return config, l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return config, nil // the server reports the error
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.File())
	if err != nil {
		return nil, err
	}
	text = listenLine.ReplaceAllFunc(text, func(line []byte) []byte {
		if bytes.HasPrefix(line, []byte("listen")) {
			return strconv.AppendQuote([]byte("listen: "), address)
		}
		return strconv.AppendQuote([]byte("public_url: "), "https://"+address)
	})
	if err := site.ReplaceFile(o.File(), text, 0o644); err != nil {
		return nil, err
	}
	return o.Read()
}

// maxOwnLog is in bytes. At the next start, a larger log is deleted.
const maxOwnLog = 4 << 20

// start starts the server in the background, and waits until it answers and can make nodes. If the
// server ends, the error has the end of its log.
func (o Site) start(ctx context.Context, config *site.Config) error {
	name := filepath.Join(o.Dir, ownLog)
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
	ended, err := startServer(program, o.File(), log)
	if err != nil {
		return err
	}
	for !site.IsServed(ctx, config) {
		select {
		case err := <-ended:
			return fmt.Errorf("the server of your own site ended at once: %w\n%s\nits whole log is %s; if the site cannot be repaired, remove it with: %s",
				err, endOf(name, begins), name, o.DownAll())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return o.awaitNodes(ctx)
}

// awaitNodes waits at most 15 s. The server starts the service that makes nodes.
func (o Site) awaitNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	companion, err := site.OpenCompanion(ctx, filepath.Join(o.Dir, site.ProvidersDir), create.Local)
	if companion == nil || err != nil {
		return nil // the server's log has the error
	}
	for ctx.Err() == nil && companion.Answers(ctx) != nil {
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// endOf returns the last lines of a file, at most ten, and none before the offset in bytes.
func endOf(name string, offset int64) string {
	const most = 10
	text, err := site.ReadRegular(name)
	if err != nil || int64(len(text)) < offset {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text[offset:])), "\n")
	return display.Printable("  " + strings.Join(lines[max(0, len(lines)-most):], "\n  "))
}

// DownAll returns the command line that removes the site.
func (o Site) DownAll() string {
	if o.UserFolder() != "" {
		return display.AsRoot(display.Program, "down", "--all")
	}
	return display.Command("down", "--all")
}

// Remove stops the server, and removes the nodes, the site and the user's keys for it.
func (o Site) Remove(ctx context.Context, messages io.Writer) error {
	if userfolder.FileExists(o.Dir) {
		if err := o.removeSite(ctx, messages); err != nil {
			return err
		}
	}
	if !userfolder.IsUserFolder(o.Home) {
		return nil
	}
	return errors.Join(userfolder.Clear(o.Home), userfolder.RemoveFile(o.Home))
}

func (o Site) removeSite(ctx context.Context, messages io.Writer) error {
	unlock, err := userfolder.Lock(ctx, o.Dir, messages)
	if err != nil {
		return err
	}
	defer unlock()
	if config, err := o.Read(); err == nil {
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := site.StopServer(stopping, config); err != nil {
			return err
		}
	}
	if o.isLocal() {
		companion, err := site.OpenCompanion(ctx, filepath.Join(o.Dir, site.ProvidersDir), create.Local)
		switch {
		case companion == nil:
			return fmt.Errorf("nothing was removed: cannot find the nodes of the site in %s, since its providers/local.prov or local.yaml was changed (%v); /var/lib/patchbay-local has the testbeds of this host; remove one with: patchbay-local clean SETTINGS", o.Dir, err)
		case err != nil:
			return err
		}
		if out, err := runHelper(ctx, "patchbay-local", "clean", companion.File); err != nil {
			return fmt.Errorf("cannot remove the nodes; repeat the command: %w\n%s", err, out)
		}
	}
	return errors.Join(userfolder.Clear(o.Dir), os.Remove(o.Dir))
}
