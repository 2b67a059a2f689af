package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"patchbay/credentials/trial"
	"patchbay/inventory/local"
)

// ownSite is the site that experimenters have for themselves when they name no other: a
// folder among the files that programs keep for them, served in the background.
//
// A site of root is root's alone: it lies in root's home, and runs copies of our programs
// there. The user who called sudo has a folder of their own with what a user needs, which
// root writes only with that user's rights; nothing that root runs or obeys is in it.
type ownSite struct {
	dir string
	// login is the name of the person, also under sudo.
	login string
	// caller is the user who called sudo, and home their folder; nil and "" without sudo.
	caller *user.User
	home   string
	// unfit is why this host cannot run nodes, where a user called sudo in vain.
	unfit string
}

const (
	ownLog = "serve.log"
	// ownPrograms is the folder with the programs that root runs.
	ownPrograms = "programs"
	// ownAuthority names the site on a host without a full name.
	ownAuthority = "testbed.example.org"
)

// findOwnSite finds the folder of the own site, which may not exist yet: patchbay in
// XDG_STATE_HOME, or in .local/state of the home folder. Under sudo that is the folder of
// the user who called it, and the site is in root's.
func findOwnSite() (o ownSite, err error) {
	id, home := os.Getenv("SUDO_UID"), ""
	sudo := os.Geteuid() == 0 && id != "" && id != "0"
	if id == "" { // else it is that of root
		home = os.Getenv("HOME")
	}
	if !sudo {
		id = strconv.Itoa(os.Geteuid())
	}
	who, err := user.LookupId(id)
	if err == nil {
		o.login, home = who.Username, cmp.Or(home, who.HomeDir)
	} else if sudo {
		return o, fmt.Errorf("cannot find the user who called sudo (SUDO_UID=%s): %w", id, err)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		if !filepath.IsAbs(home) {
			return o, errors.New("there is no home folder for a site of your own; set HOME or XDG_STATE_HOME, or name a site with --config")
		}
		state = filepath.Join(home, ".local", "state")
	}
	o.dir = filepath.Join(state, "patchbay")
	if sudo {
		o.caller, o.home = who, o.dir
		o.dir, err = rootsSite(id)
	} else {
		err = nil
	}
	return o, err
}

// rootsSite is the folder of the site that root has for a user who calls sudo. Nothing in
// the environment, which is the user's, leads it elsewhere.
func rootsSite(uid string) (string, error) {
	root, err := user.LookupId("0")
	if err != nil || !filepath.IsAbs(root.HomeDir) {
		return "", fmt.Errorf("root has no home folder for the site (%v); give it one, or name a site with --config", err)
	}
	return filepath.Join(root.HomeDir, ".local", "state", "patchbay-"+uid), nil
}

func (o ownSite) file() string { return filepath.Join(o.dir, site.ConfigName) }

func (o ownSite) exists() bool { return exists(o.file()) }

// userFolder is the folder of the user of a site of root: under sudo that of the caller,
// else the place of the own site, if such a folder is there. It is "" for any other site.
func (o ownSite) userFolder() string {
	if o.home != "" || !isUserFolder(o.dir) {
		return o.home
	}
	return o.dir
}

// read reads the configuration, whatever variables of the environment say of other sites.
func (o ownSite) read() (*site.Config, error) { return site.ReadConfig(o.file()) }

// isLocal tells whether its nodes are containers of this host.
func (o ownSite) isLocal() bool {
	return exists(filepath.Join(o.dir, site.ProvidersDir, create.Local+".yaml"))
}

// choose gives up the rights of root where they are of no use: without a site of root, when
// the host cannot run nodes or nothing is to be made. The own site is then that of the user
// who called sudo.
func (o ownSite) choose(ctx context.Context, c console, begin bool) (ownSite, error) {
	if o.caller == nil || o.exists() {
		return o, nil
	}
	simulated, reason := exists(filepath.Join(o.home, site.ConfigName)), ""
	switch {
	case begin:
		reason = unfit(ctx)
		if reason == "" && !simulated {
			return o, nil
		}
		if reason == "" {
			fmt.Fprintf(c.err, "The nodes are simulated, as when your own site was made; for real ones: %s, then up again\n", display.Command("down", "--all"))
		}
	case !simulated && isUserFolder(o.home):
		return o, fmt.Errorf("the site of your folder %s is gone; remove the folder with: %s", o.home, o.downAll())
	}
	if err := becomeUser(o.caller); err != nil {
		return o, fmt.Errorf("cannot give up the rights of root: %w", err)
	}
	own, err := findOwnSite()
	own.unfit = reason
	return own, err
}

// becomeUser gives up the rights of root for good.
func becomeUser(u *user.User) error {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return err
	}
	groups := []int{gid}
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil {
			groups = append(groups, n)
		}
	}
	return errors.Join(syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid))
}

// open makes the site if it does not exist, and serves it if it is not served.
func (o ownSite) open(ctx context.Context, c console) error {
	if err := o.checkOwners(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
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
	if err := o.serve(ctx, c); err != nil {
		return err
	}
	return o.writeUsers(ctx)
}

// checkOwners refuses folders that belong to others: root obeys what is in the site, and
// writes keys into the folder of the user who called sudo.
func (o ownSite) checkOwners() error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, _, err := fileowner.Of(o.dir)
	if err == nil && owner != 0 {
		err = fmt.Errorf("root makes no site of its own in %s, which belongs to user %d; unset XDG_STATE_HOME, or name a site with --config", o.dir, owner)
	}
	if err != nil || o.home == "" {
		return err
	}
	if owner, _, err = fileowner.Of(o.home); err == nil && strconv.Itoa(owner) != o.caller.Uid {
		err = fmt.Errorf("the folder for your keys, %s, belongs to user %d and not to %s; give it, or the folder above it, to %[3]s with chown", o.home, owner, o.login)
	}
	return err
}

// writeUsers writes what users of the site need, and what has changed of it: at first the
// person's own, whose folder is elsewhere if they called sudo.
func (o ownSite) writeUsers(ctx context.Context) error {
	config, err := o.read()
	if err != nil {
		return err
	}
	t, err := openTrial(ctx, config)
	if err != nil {
		return err
	}
	users := filepath.Join(o.dir, site.UsersDir)
	names := folksIn(users)
	if o.home != "" {
		link := filepath.Join(users, strings.ToLower(o.userName()))
		if to, _ := os.Readlink(link); to != o.home {
			if err := errors.Join(os.MkdirAll(users, 0o755), removeFile(link), os.Symlink(o.home, link)); err != nil {
				return err
			}
		}
	}
	if len(names) == 0 || o.home != "" {
		names = append(names, o.userName())
	}
	for _, name := range names {
		if _, _, err := t.user(name, false, time.Now()); err != nil {
			return fmt.Errorf("cannot write the files of the user %s: %w", name, err)
		}
	}
	return nil
}

// userName is the name of the person at the site.
func (o ownSite) userName() string {
	if o.login == "root" || trial.CheckUser(o.login) != nil {
		return "alice"
	}
	return o.login
}

// partsOfSite are what create.Site writes before the configuration, which is last.
var partsOfSite = []string{
	ownPrograms, site.AuthorityDir, site.TrustedDir, site.ProvidersDir, site.InventoryName, site.PolicyName, site.RequestName,
	"server-ecdsa.pem", "server-ecdsa-key.pem", "server-rsa.pem", "server-rsa-key.pem",
}

// create makes the site, with real nodes where they can be.
func (o ownSite) create(ctx context.Context, c console) error {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(partsOfSite, e.Name()) }) {
		if err := clearFolder(o.dir); err != nil { // one who was interrupted left them
			return err
		}
	}
	if err := create.RequireEmpty(o.dir); err != nil {
		return err
	}
	if o.home != "" {
		if isUserFolder(o.home) { // of a site that is gone
			err = clearFolder(o.home)
		}
		if err := errors.Join(err, create.RequireEmpty(o.home)); err != nil {
			return err
		}
	}
	provider := create.Local
	if reason := cmp.Or(o.unfit, unfit(ctx)); os.Geteuid() != 0 && o.unfit == "" {
		provider = create.Simulated
		fmt.Fprintf(c.err, "Nodes are simulated, and nobody can log in to them; real ones need root: %s\n", display.AsRoot(display.Program, "up", "REQUEST"))
	} else if reason != "" {
		provider = create.Simulated
		fmt.Fprintf(c.err, "Nodes are simulated, and nobody can log in to them; this host cannot run real ones:\n  %s\n", strings.ReplaceAll(reason, "\n", "\n  "))
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	helper, err := o.program("patchbay-local")
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
		return errors.Join(err, clearFolder(o.dir))
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

// program is the path of one of our programs for the server. Root runs a copy in its own
// site: the user who called sudo may have the right to change the other.
func (o ownSite) program(name string) (string, error) {
	from, err := findProgram(name)
	if err != nil || o.home == "" {
		return from, err
	}
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(o.dir, ownPrograms, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close(), os.Rename(to+".new", to)) // the old one may be running
}

// clearFolder removes what is in a folder, as its owner.
func clearFolder(dir string) error {
	return fileowner.As(dir, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
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
	if _, err := o.program("patchbay-local"); err != nil { // it may be newer
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

// downAll is the command that removes the own site.
func (o ownSite) downAll() string {
	if o.userFolder() != "" {
		return display.AsRoot(display.Program, "down", "--all")
	}
	return display.Command("down", "--all")
}

// remove ends the server, removes the nodes, and then the folders: nothing is left.
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

// removeSite is remove for the folder of the site.
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
			return fmt.Errorf("cannot find out which nodes belong to the site in %s, so nothing was removed: its providers/local.prov or local.yaml was changed (%v); see which testbeds there are in /var/lib/patchbay-local, and remove one with: patchbay-local clean SETTINGS", o.dir, err)
		case err != nil:
			return err
		}
		if out, err := runHelper(ctx, "patchbay-local", "clean", bed.Settings); err != nil {
			return fmt.Errorf("cannot remove the nodes; say it again: %w\n%s", err, out)
		}
	}
	return errors.Join(clearFolder(o.dir), os.Remove(o.dir))
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
