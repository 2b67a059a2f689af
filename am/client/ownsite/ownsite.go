package ownsite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// Site is the private site of an experimenter that names no other site. It is a folder
// in the user's state folder, with a server in the background.
//
// A site of root is in root's home and runs copies of our programs from there. So the user
// that called sudo cannot change the programs that root runs. The user's keys and
// credentials are in a separate folder. Root writes to that folder only with the user's
// rights.
type Site struct {
	Dir string // which may not exist
	// login is the name of the person, not root, also under sudo.
	login string
	// caller is the user that called sudo; nil without sudo. Home is the folder with the
	// caller's keys; "" without sudo.
	caller *user.User
	Home   string
	// hostProblem is the reason why this host cannot run nodes; "" if Choose found no
	// problem or did not check.
	hostProblem string
}

const (
	ownLog = "serve.log"
	// ownPrograms is the folder with root's copies of our programs.
	ownPrograms = "programs"
	// ownAuthority names the site on a host without a full name.
	ownAuthority = "testbed.example.org"
)

// Find returns the own site, which may not exist yet. Its folder is patchbay in
// XDG_STATE_HOME, or in .local/state of the home folder. Under sudo, that folder has only
// the caller's keys, and the site is in root's home. Find fails if there is no home
// folder.
func Find() (o Site, err error) {
	id, home := os.Getenv("SUDO_UID"), ""
	sudo := os.Geteuid() == 0 && id != "" && id != "0"
	if id == "" { // under sudo, HOME is root's
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
	o.Dir = filepath.Join(state, "patchbay")
	if sudo {
		o.caller, o.Home = who, o.Dir
		o.Dir, err = rootsSite(id)
	} else {
		err = nil
	}
	return o, err
}

// rootsSite returns the folder of root's site for a user that calls sudo. It ignores the
// environment, which that user controls.
func rootsSite(uid string) (string, error) {
	root, err := user.LookupId("0")
	if err != nil || !filepath.IsAbs(root.HomeDir) {
		return "", fmt.Errorf("root has no home folder for the site (%v); give it one, or name a site with --config", err)
	}
	return filepath.Join(root.HomeDir, ".local", "state", "patchbay-"+uid), nil
}

// File returns the path of the configuration.
func (o Site) File() string { return filepath.Join(o.Dir, site.ConfigName) }

// Exists reports whether the site has a configuration.
func (o Site) Exists() bool { return userfolder.FileExists(o.File()) }

// UserFolder returns the folder with the user's keys if the own site belongs to root, else
// "". Without sudo, this is dir, which then has keys and no site.
func (o Site) UserFolder() string {
	if o.Home != "" || !userfolder.IsUserFolder(o.Dir) {
		return o.Home
	}
	return o.Dir
}

// Read ignores environment variables, which are for other sites.
func (o Site) Read() (*site.Config, error) { return site.ReadConfigFile(o.File()) }

// isLocal reports whether the site's nodes are containers of this host.
func (o Site) isLocal() bool {
	return userfolder.FileExists(filepath.Join(o.Dir, site.ProvidersDir, create.Local+".yaml"))
}

// Choose returns the own site to use under sudo. This is root's site if it exists. It is
// also root's site if creating is true, this host can run real nodes, and the user has no
// simulated site. Otherwise, Choose drops the rights of root permanently and returns the
// site of the user that called sudo.
func (o Site) Choose(ctx context.Context, messages io.Writer, creating bool) (Site, error) {
	if o.caller == nil || o.Exists() {
		return o, nil
	}
	simulated, reason := userfolder.FileExists(filepath.Join(o.Home, site.ConfigName)), ""
	switch {
	case creating:
		reason = HostProblem(ctx)
		if reason == "" && !simulated {
			return o, nil
		}
		if reason == "" {
			fmt.Fprintf(messages, "The nodes are simulated, since your own site was created so; for real nodes: %s, then up again\n", display.Command("down", "--all"))
		}
	case !simulated && userfolder.IsUserFolder(o.Home):
		return o, fmt.Errorf("the site for which your folder %s has keys no longer exists; remove the folder with: %s", o.Home, o.DownAll())
	}
	if err := becomeUser(o.caller); err != nil {
		return o, fmt.Errorf("cannot drop the rights of root: %w", err)
	}
	own, err := Find()
	own.hostProblem = reason
	return own, err
}

// becomeUser changes the rights of the process permanently.
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

// Open creates the site if necessary, starts its server, and updates the files of its
// users.
func (o Site) Open(ctx context.Context, messages io.Writer) error {
	if err := o.checkOwners(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the folder of your own site: %w", err)
	}
	unlock, err := userfolder.Lock(ctx, o.Dir, messages)
	if err != nil {
		return err
	}
	defer unlock()
	if !o.Exists() {
		if err := o.create(ctx, messages); err != nil {
			return err
		}
	} else if !o.isLocal() && os.Geteuid() == 0 && HostProblem(ctx) == "" {
		fmt.Fprintf(messages, "The nodes are simulated, since your own site was created so; for real nodes: %s, then up again\n", display.AsRoot(display.Program, "down", "--all"))
	}
	if err := o.serve(ctx, messages); err != nil {
		return err
	}
	return o.writeUsers(ctx)
}

// checkOwners fails if this process is root and a folder has the wrong owner. The site's
// folder must belong to root, since root runs programs from it. The folder for keys must
// belong to the user that called sudo.
func (o Site) checkOwners() error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, _, err := file.OwnerOf(o.Dir)
	if err == nil && owner != 0 {
		err = fmt.Errorf("root creates no site in %s, which belongs to user %d; unset XDG_STATE_HOME, or name a site with --config", o.Dir, owner)
	}
	if err != nil || o.Home == "" {
		return err
	}
	if owner, _, err = file.OwnerOf(o.Home); err == nil && strconv.Itoa(owner) != o.caller.Uid {
		err = fmt.Errorf("the folder for your keys, %s, belongs to user %d and not to %s; give it, or the folder above it, to %[3]s with chown", o.Home, owner, o.login)
	}
	return err
}

// writeUsers writes missing and changed files of the site's users. If the site has no user,
// it creates one. Under sudo, the folder of that user is a link to home.
func (o Site) writeUsers(ctx context.Context) error {
	config, err := o.Read()
	if err != nil {
		return err
	}
	t, err := userfolder.OpenTrial(ctx, config)
	if err != nil {
		return err
	}
	users := filepath.Join(o.Dir, site.UsersDir)
	names := userfolder.Users(users)
	if o.Home != "" {
		link := filepath.Join(users, strings.ToLower(o.userName()))
		if to, _ := os.Readlink(link); to != o.Home {
			if err := errors.Join(os.MkdirAll(users, 0o755), userfolder.RemoveFile(link), os.Symlink(o.Home, link)); err != nil {
				return err
			}
		}
	}
	if len(names) == 0 || o.Home != "" {
		names = append(names, o.userName())
	}
	for _, name := range names {
		if _, _, err := t.WriteUser(name, false, time.Now()); err != nil {
			return fmt.Errorf("cannot write the files of the user %s: %w", name, err)
		}
	}
	return nil
}

// userName returns the login, or alice if the login is root or not a valid user name.
func (o Site) userName() string {
	if o.login == "root" || trial.CheckUser(o.login) != nil {
		return "alice"
	}
	return o.login
}

// partsOfSite are the files that create.Site writes before the configuration. After an
// interruption, a folder has some of these files and no configuration.
var partsOfSite = []string{
	ownPrograms, site.AuthorityDir, site.TrustedDir, site.ProvidersDir, site.InventoryName, site.PolicyName, site.RequestName,
	"server-ecdsa.pem", "server-ecdsa-key.pem", "server-rsa.pem", "server-rsa-key.pem",
}

// create creates the site, with the provider that chooseProvider returns. It first removes the
// files of an interrupted command. After an error, it removes what it has written.
func (o Site) create(ctx context.Context, messages io.Writer) error {
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(partsOfSite, e.Name()) }) {
		if err := userfolder.Clear(o.Dir); err != nil {
			return err
		}
	}
	if err := create.RequireEmpty(o.Dir); err != nil {
		return err
	}
	if o.Home != "" {
		if userfolder.IsUserFolder(o.Home) { // its keys are for a site that no longer exists
			err = userfolder.Clear(o.Home)
		}
		if err := errors.Join(err, create.RequireEmpty(o.Home)); err != nil {
			return err
		}
	}
	provider := o.chooseProvider(ctx, messages)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	helper, err := o.program("patchbay-local")
	if err != nil {
		return err
	}
	address, err := FreeAddress()
	if err != nil {
		return err
	}
	authority := site.FullName(ctx)
	if !urn.ValidAuthority(authority) || !strings.Contains(authority, ".") {
		authority = ownAuthority
	}
	_, err = create.Site(ctx, create.Options{
		Dir: o.Dir, Authority: authority, Provider: provider, Listen: address, PublicURL: "https://" + address, Program: helper, Serve: true,
	})
	if err == nil && provider == create.Local {
		err = o.releasePortsAtOnce()
	}
	if err != nil {
		return errors.Join(err, userfolder.Clear(o.Dir))
	}
	return nil
}

// chooseProvider returns the provider of a new site. Unless this host can run real nodes, it
// returns the simulated provider and prints the reason.
func (o Site) chooseProvider(ctx context.Context, messages io.Writer) string {
	reason := cmp.Or(o.hostProblem, HostProblem(ctx))
	switch {
	case os.Geteuid() != 0 && o.hostProblem == "":
		fmt.Fprintf(messages, "Nodes are simulated, without logins; real ones need root: %s\n", display.AsRoot(display.Program, "up", "REQUEST"))
	case reason != "":
		fmt.Fprintf(messages, "Nodes are simulated, without logins; this host cannot run real ones:\n  %s\n", strings.ReplaceAll(reason, "\n", "\n  "))
	default:
		return create.Local
	}
	return create.Simulated
}

var portRest = regexp.MustCompile(`(?m)^port_rest: .*$`)

// releasePortsAtOnce sets port_rest to 0. This is safe, since the site has no other user
// that could reach the wrong node.
func (o Site) releasePortsAtOnce() error {
	file := filepath.Join(o.Dir, site.ProvidersDir, create.Local+".yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return site.ReplaceFile(file, portRest.ReplaceAll(text, []byte("port_rest: 0s")), 0o644)
}

// program returns the path of one of our programs. For a site of root, this is a copy,
// since the user that called sudo may be able to change the original.
func (o Site) program(name string) (string, error) {
	from, err := FindProgram(name)
	if err != nil || o.Home == "" {
		return from, err
	}
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(o.Dir, ownPrograms, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close(), os.Rename(to+".new", to)) // rename, since the old copy may be running
}

// RootsSiteOf returns the folder of the user's own site if that site belongs to root and
// path is in the folder with the user's keys, else "".
func RootsSiteOf(path string) string {
	own, err := Find()
	if err != nil || own.UserFolder() == "" {
		return ""
	}
	path, err = filepath.Abs(path)
	if rest, err2 := filepath.Rel(own.UserFolder(), path); err != nil || err2 != nil || !filepath.IsLocal(rest) {
		return ""
	}
	if own.Home != "" {
		return own.Dir
	}
	dir, err := rootsSite(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	return dir
}
