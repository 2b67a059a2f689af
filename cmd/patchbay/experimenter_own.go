package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"patchbay/am/display"
	"patchbay/am/fileowner"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/urn"
	"patchbay/inventory/local"
)

// ownSite is the site that experimenters have for themselves when they name no other: a
// folder among the files that programs keep for them, served in the background.
type ownSite struct {
	dir string
	// login is the name of the person, also under sudo.
	login string
}

const (
	ownLog = "serve.log"
	// ownAuthority names the site on a host without a full name.
	ownAuthority = "testbed.example.org"
)

// findOwnSite finds the folder of the own site, which may not exist yet: patchbay in
// XDG_STATE_HOME, or in .local/state of the home folder. Under sudo it is that of the
// user who called sudo.
func findOwnSite() (ownSite, error) {
	home, login := os.Getenv("HOME"), ""
	if uid := os.Getenv("SUDO_UID"); os.Geteuid() == 0 && uid != "" && uid != "0" {
		u, err := user.LookupId(uid)
		if err != nil {
			return ownSite{}, fmt.Errorf("cannot find the user who called sudo (SUDO_UID=%s): %w", uid, err)
		}
		home, login = u.HomeDir, u.Username
	} else if u, err := user.Current(); err == nil {
		login = u.Username
		if home == "" {
			home = u.HomeDir
		}
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		if !filepath.IsAbs(home) {
			return ownSite{}, errors.New("there is no home folder for a site of your own; set HOME or XDG_STATE_HOME, or name a site with --config")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return ownSite{filepath.Join(state, "patchbay"), login}, nil
}

func (o ownSite) file() string { return filepath.Join(o.dir, site.ConfigName) }

func (o ownSite) exists() bool { return exists(o.file()) }

// read reads the configuration, whatever variables of the environment say of other sites.
func (o ownSite) read() (*site.Config, error) { return site.ReadConfig(o.file()) }

// isLocal tells whether its nodes are containers of this host.
func (o ownSite) isLocal() bool {
	return exists(filepath.Join(o.dir, site.ProvidersDir, create.Local+".yaml"))
}

// open makes the site if it does not exist, and serves it if it is not served.
func (o ownSite) open(ctx context.Context, c console) error {
	if err := o.makeFolder(); err != nil {
		return fmt.Errorf("cannot make the folder of your own site: %w", err)
	}
	unlock, err := lockFolder(ctx, o.dir, c)
	if err != nil {
		return err
	}
	defer unlock()
	if !o.exists() {
		if err := o.create(ctx, c); err != nil {
			return err
		}
	} else if !o.isLocal() && os.Geteuid() == 0 && unfit(ctx) == "" {
		fmt.Fprintf(c.err, "The nodes are simulated, as when your own site was made; for real ones: %s, then up again\n", display.AsRoot(display.Program, "down", "--all"))
	}
	return o.serve(ctx, c)
}

// makeFolder makes the folder, for the user who called sudo if there is one.
func (o ownSite) makeFolder() error {
	return fileowner.As(o.dir, func() error { return os.MkdirAll(o.dir, 0o700) })
}

// partsOfSite are what create.Site writes before the configuration, which is last.
var partsOfSite = []string{
	site.AuthorityDir, site.TrustedDir, site.ProvidersDir, site.InventoryName, site.PolicyName, site.RequestName,
	"server-ecdsa.pem", "server-ecdsa-key.pem", "server-rsa.pem", "server-rsa-key.pem",
}

// create makes the site, with real nodes where they can be.
func (o ownSite) create(ctx context.Context, c console) error {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(partsOfSite, e.Name()) }) {
		if err := o.clear(); err != nil { // one who was interrupted left them
			return err
		}
	}
	if err := create.RequireEmpty(o.dir); err != nil {
		return err
	}
	provider := create.Local
	if reason := unfit(ctx); os.Geteuid() != 0 {
		provider = create.Simulated
		fmt.Fprintf(c.err, "Nodes are simulated, and nobody can log in to them; real ones need root: %s\n", display.AsRoot(display.Program, "up", "REQUEST"))
	} else if reason != "" {
		provider = create.Simulated
		fmt.Fprintf(c.err, "Nodes are simulated, and nobody can log in to them; this host cannot run real ones:\n  %s\n", strings.ReplaceAll(reason, "\n", "\n  "))
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	helper, err := findProgram("patchbay-local")
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	authority := site.FullName(ctx)
	if !urn.ValidAuthority(authority) || !strings.Contains(authority, ".") {
		authority = ownAuthority
	}
	_, err = create.Site(ctx, create.Options{
		Dir: o.dir, Authority: authority, Provider: provider, Listen: address, PublicURL: "https://" + address, Program: helper,
	})
	if err == nil && provider == create.Local {
		err = o.releasePortsAtOnce()
	}
	if err != nil {
		return errors.Join(err, o.clear())
	}
	return nil
}

// releasePortsAtOnce lets no port of a node rest: nobody else logs in through them.
func (o ownSite) releasePortsAtOnce() error {
	file := filepath.Join(o.dir, site.ProvidersDir, create.Local+".yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return site.ReplaceFile(file, portRest.ReplaceAll(text, []byte("port_rest: 0s")), 0o644)
}

// clear removes what is in the folder, as its owner.
func (o ownSite) clear() error {
	return fileowner.As(o.dir, func() error {
		entries, err := os.ReadDir(o.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(o.dir, e.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// serve starts the server in the background if the site is not served, and waits until
// it answers.
func (o ownSite) serve(ctx context.Context, c console) error {
	config, err := o.read()
	if err != nil {
		return err
	}
	if site.IsServed(ctx, config) {
		return nil
	}
	if o.isLocal() && os.Geteuid() != 0 {
		return fmt.Errorf("your own site in %s does not run, and its nodes are containers, which need root; start it with: %s", o.dir, display.AsRoot(display.Program, "status"))
	}
	if config, err = o.choosePort(config); err != nil {
		return err
	}
	return o.start(ctx, config)
}

var listenLine = regexp.MustCompile(`(?m)^(listen|public_url): .*$`)

// choosePort gives the site another port if somebody else has its own.
func (o ownSite) choosePort(config *site.Config) (*site.Config, error) {
	l, err := net.Listen("tcp", config.Listen)
	if err == nil {
		return config, l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return config, nil // the server says what is wrong
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

// maxOwnLog is how long the log of the server may be before it begins anew, in bytes.
const maxOwnLog = 4 << 20

// start starts the server and waits until it answers.
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
	ended, err := startServer(o.file(), log)
	if err != nil {
		return err
	}
	for !site.IsServed(ctx, config) {
		select {
		case err := <-ended:
			return fmt.Errorf("the server of your own site ended at once: %w\n%s\nthe whole log is %s; if the site is beyond repair, remove it with: %s",
				err, endOf(name, begins), name, o.downAll())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return o.awaitTestbed(ctx)
}

// awaitTestbed waits a little until nodes of this host can be reached again: the site is
// served before its testbed answers.
func (o ownSite) awaitTestbed(ctx context.Context) error {
	bed, err := site.OpenTestbed(filepath.Join(o.dir, site.ProvidersDir), create.Local)
	if bed == nil || err != nil {
		return nil // the server's log says what is wrong
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for ctx.Err() == nil && !bed.Runs(ctx, local.Socket) {
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// endOf is the end of a log from a position on, at most ten lines.
func endOf(name string, from int64) string {
	const most = 10
	text, err := site.ReadRegular(name)
	if err != nil || int64(len(text)) < from {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text[from:])), "\n")
	return display.Printable("  " + strings.Join(lines[max(0, len(lines)-most):], "\n  "))
}

func (o ownSite) downAll() string { return display.Command("down", "--all") }

// remove ends the server, removes the nodes, and then the folder: nothing is left.
func (o ownSite) remove(ctx context.Context, c console) error {
	if !exists(o.dir) {
		return nil
	}
	unlock, err := lockFolder(ctx, o.dir, c)
	if err != nil {
		return err
	}
	defer unlock()
	if o.isLocal() && os.Geteuid() != 0 {
		return fmt.Errorf("the nodes of your own site in %s are containers, which need root; say: %s", o.dir, display.AsRoot(display.Program, "down", "--all"))
	}
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
			return fmt.Errorf("cannot find out which nodes belong to the site in %s, so nothing was removed: its providers/local.prov or local.yaml was changed (%v); see which testbeds there are in /var/lib/patchbay-local, and remove one with: patchbay-local clean SETTINGS", o.dir, err)
		case err != nil:
			return err
		}
		if out, err := runHelper(ctx, "patchbay-local", "clean", bed.Settings); err != nil {
			return fmt.Errorf("cannot remove the nodes; say it again: %w\n%s", err, out)
		}
	}
	if err := o.clear(); err != nil {
		return err
	}
	return fileowner.As(filepath.Dir(o.dir), func() error { return os.Remove(o.dir) })
}

// lockFolder waits until no other command of ours works in a folder. Two that begin at
// once then do one thing after the other.
func lockFolder(ctx context.Context, dir string, c console) (unlock func(), err error) {
	const quiet = 10 // tries until it says for whom it waits
	for try := 0; ; try++ {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isStill(f, dir) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
		}
		if try == quiet {
			fmt.Fprintf(c.err, "waiting for another patchbay command that works in %s\n", dir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isStill tells whether a folder that was opened is still the one of that name.
func isStill(f *os.File, dir string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(dir)
	return err == nil && os.SameFile(opened, now)
}
