package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/fileowner"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// experimenterFlags are shared by up, ssh, status, extend, export and down.
type experimenterFlags struct {
	site          siteFlag
	URL, CA, User string
}

func (o *experimenterFlags) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.URL, "url", os.Getenv(site.EnvPrefix+"URL"), "the aggregate manager, instead of a site of this host; also PATCHBAY_URL")
	fs.StringVar(&o.CA, "ca", "", "accept only servers with a certificate in this file")
	fs.StringVar(&o.User, "user", "", "the user: a name at the site, or a user's folder (default: the only user, or the only one with experiments)")
}

type session struct {
	console
	flags *experimenterFlags
	// dir is the user's folder.
	dir string
	aggregate
	// config and trial belong to the site on this host. Each is nil if it does not exist or
	// this user may not read it.
	config    *site.Config
	trial     *trialSite
	inventory *inventory.Inventory // of config, once it is read
	own       *ownSite             // the user's own site; nil for another site
	opened    []*client.Client
	unlock    func() // set by openLocked
}

// errNothingYet means that the user has no own site yet.
var errNothingYet = errors.New("you have no experiment here; begin with: " + display.Command("up", "--example"))

// open serves the user's own site. If creating is true, it creates a missing own site and a
// missing user.
func (o *experimenterFlags) open(ctx context.Context, c console, creating bool) (*session, error) {
	s := &session{console: c, flags: o}
	flags := targetFlags{site: &o.site, URL: o.URL, CA: o.CA, API: 3, prepare: func(own ownSite) (ownSite, error) {
		own, err := own.choose(ctx, c, creating)
		switch {
		case err != nil || !own.exists() && own.home == "" && own.userFolder() != "": // root serves this site
			return own, err
		case !creating && !own.exists():
			return own, errNothingYet
		}
		return own, own.open(ctx, c)
	}}
	if o.User != "" {
		flags.Users = []string{o.User}
	}
	if creating {
		flags.makeUser = func(name string) (string, error) { return s.makeUser(ctx, name) }
	}
	t, err := flags.target(ctx)
	if err != nil {
		return nil, err
	}
	s.aggregate, s.own, s.config = t.aggregate, t.own, t.config
	switch {
	case len(t.paths) > 0 && isFolder(t.paths[0]):
		s.dir, err = filepath.Abs(t.paths[0])
	case o.URL != "":
		err = errors.New("--url needs --user FOLDER, the folder of a user of that aggregate")
	case o.User != "":
		err = errors.New("--user needs the name of a user, or a user's folder")
	default:
		err = errNothingYet
	}
	if err != nil {
		return nil, err
	}
	return s, s.openSite(ctx)
}

// openSite opens the aggregate's site if it is on this host and this user may read it.
func (s *session) openSite(ctx context.Context) error {
	file := siteOf(filepath.Join(s.dir, "x"))
	if o := s.flags; o.site.isGiven() || s.own != nil && s.own.exists() {
		file = o.site.path()
	}
	if s.config == nil && file != "" {
		config, err := s.flags.site.readFile(file)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		s.config = config
	}
	if s.config == nil {
		return nil
	}
	t, err := openTrial(ctx, s.config)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	s.trial = t
	return err
}

// makeUser returns the folder of a new user. The name "" means firstUser. If the site has no
// trial authority, makeUser returns "".
func (s *session) makeUser(ctx context.Context, name string) (string, error) {
	config, err := s.flags.site.read()
	if err != nil {
		return "", err
	}
	t, err := openTrial(ctx, config)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	unlock, err := lockFolder(ctx, t.dir, s.console) // another command may create the same user
	if err != nil {
		return "", err
	}
	defer unlock()
	name = cmp.Or(name, firstUser)
	isNew := !exists(folderOfUser(t.dir, name))
	if users := userNamesIn(filepath.Join(t.dir, site.UsersDir)); isNew && s.own == nil && s.flags.User != "" && len(users) > 0 {
		return "", fmt.Errorf("there is no user %s here; %screate it with: %s", name, suggestNames(name, users), display.CommandAt(config.Origin.File, "user", name))
	}
	u, _, err := t.writeUser(name, false, time.Now())
	if err != nil {
		return "", err
	}
	if s.own == nil && isNew {
		fmt.Fprintf(s.err, "Created the user %s of %s.\n", u.Name, config.Authority)
	}
	return u.Dir, nil
}

// hint returns a command line that is safe for a terminal. The flags come before args[1:],
// since ssh passes all words after NODE to the node.
func (s *session) hint(args ...string) string {
	o := s.flags
	rest := args[1:]
	args = args[:1:1]
	for _, f := range [][2]string{{"user", o.User}, {"url", o.URL}, {"ca", o.CA}} {
		if f[1] != "" && o.site.flags.Changed(f[0]) {
			args = append(args, "--"+f[0], f[1])
		}
	}
	if o.site.flags.Changed("config") {
		args = append(args, "--config", o.site.file)
	}
	return display.Line(display.Command(append(args, rest...)...))
}

// explain adds the command that starts the site if the error means that the site is not
// running.
func (s *session) explain(err error) error {
	switch {
	case !errors.Is(err, syscall.ECONNREFUSED) || s.flags.URL != "" && !s.flags.site.isGiven():
		return err
	case s.own != nil && s.own.userFolder() != "":
		return fmt.Errorf("%w\nyour own site is not running, as after a reboot; start it with: %s", err, display.AsRoot(display.Program, "status"))
	case s.config != nil:
		return fmt.Errorf("%w\nthe site is not running; start it with: %s", err, serveCommand(s.config.Origin.File))
	}
	return err
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// openLocked locks the user's folder until close.
func (o *experimenterFlags) openLocked(ctx context.Context, c console, creating bool) (*session, error) {
	s, err := o.open(ctx, c, creating)
	if err != nil {
		return nil, err
	}
	if s.unlock, err = s.lock(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) close() {
	if s.unlock != nil {
		s.unlock()
	}
	for _, c := range s.opened {
		c.Close()
	}
}

// lock locks the user's folder against other commands.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	return lockFolder(ctx, s.dir, s.console)
}

// sliceOr returns the given name, or else the only slice with nodes.
func (s *session) sliceOr(ctx context.Context, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	switch have := s.withNodes(ctx, s.usable()); len(have) {
	case 0:
		return "", fmt.Errorf("there are no nodes; begin with: %s", s.hint("up", "--example"))
	case 1:
		return have[0], nil
	default:
		return "", fmt.Errorf("several slices could be meant; name one of: %s", strings.Join(have, ", "))
	}
}

// userName returns the user's name at the site.
func (s *session) userName() string {
	if names := namesOf(s.dir, "*-usercred.xml", "-usercred.xml"); len(names) > 0 {
		return strings.ToLower(names[0])
	}
	return filepath.Base(s.dir)
}

func (s *session) userURN(name string) string {
	return urn.URN{Authority: s.trial.URN().Authority, Type: urn.User, Name: name}.String()
}

// globbed returns the files of a folder that match a pattern. Unlike filepath.Glob, it does not
// interpret the name of the folder.
func globbed(dir, pattern string) []string {
	files, _ := fs.Glob(os.DirFS(dir), pattern) // fails only for wrong patterns
	for i := range files {
		files[i] = filepath.Join(dir, files[i])
	}
	return files
}

// experiments returns the slices that "patchbay up" has created, without names that have
// control characters. Each has a request in the user's folder.
func (s *session) experiments() []string {
	names := namesOf(filepath.Join(s.dir, "slices"), "*.request.xml", ".request.xml")
	return slices.DeleteFunc(names, func(name string) bool { return display.Line(name) != name })
}

// otherSlices returns the slices that have a credential and that "patchbay up" did not
// create.
func (s *session) otherSlices() []string {
	mine := s.experiments()
	return slices.DeleteFunc(slicesIn(s.dir), func(name string) bool {
		return slices.Contains(mine, name) || display.Line(name) != name
	})
}

// sharedWithUser reports whether another user has delegated a slice to this user.
func (s *session) sharedWithUser(name string) bool {
	text, err := site.ReadRegular(s.sliceFile(name, "-cred.xml"))
	return err == nil && isDelegated(text)
}

func (s *session) usable() []string { return append(s.experiments(), s.otherSlices()...) }

// writeSSH writes ssh_config and known_hosts for all slices.
func (s *session) writeSSH() error {
	var all []experiment.Host
	for _, name := range s.usable() {
		hosts, _, err := s.hosts(name)
		if err != nil {
			return err
		}
		all = append(all, hosts...)
	}
	if err := s.pruneKnownHosts(all); err != nil {
		return err
	}
	if err := s.sshFiles().Check(); err != nil {
		return err
	}
	return site.ReplaceFile(s.file("ssh_config"), experiment.SSHConfig(all, s.sshFiles()), 0o600)
}

func (s *session) sshFiles() experiment.SSHFiles {
	files := experiment.SSHFiles{Identity: s.file("id_ed25519"), KnownHosts: s.file("known_hosts")}
	if !exists(files.Identity) { // the user may have a key elsewhere
		files.Identity = ""
	}
	return files
}

// pruneKnownHosts removes the host keys of nodes that no longer exist. It replaces a
// symbolic link by an empty file, since OpenSSH would write to the link's target. Root
// reads the file with the rights of the folder's owner.
func (s *session) pruneKnownHosts(hosts []experiment.Host) error {
	file := s.file("known_hosts")
	link := isLink(file)
	var known []byte
	if !link {
		err := fileowner.As(s.dir, func() (err error) { known, err = site.ReadRegular(file); return err })
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // root's ssh may have created the file
			return err
		}
	}
	if pruned := experiment.PruneKnownHosts(known, hosts); link || len(pruned) != len(known) {
		return site.ReplaceFile(file, pruned, 0o600)
	}
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func (s *session) file(name string) string { return filepath.Join(s.dir, name) }

// sliceNameOf derives a name from the name of a file.
func sliceNameOf(file string) string {
	const most = 19
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	name := strings.Trim(notInSlices.ReplaceAllString(base, "-"), "-")
	name = strings.TrimRight(name[:min(len(name), most)], "-")
	return cmp.Or(name, "experiment")
}

var notInSlices = regexp.MustCompile(`[^A-Za-z0-9]+`)
