package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/ownsite"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Session has a user's folder and an aggregate, for one command.
type Session struct {
	Choice   Selection // as given
	Messages io.Writer // for people
	// Dir is the user's folder.
	Dir string
	userfolder.Aggregate
	// Config and Trial belong to the site on this host. Each is nil if it does not exist or
	// this user may not read it.
	Config    *site.Config
	Trial     *userfolder.Trial    // its trial authority
	inventory *inventory.Inventory // of Config, once it is read
	Own       *ownsite.Site        // the user's own site; nil for another site
	opened    []*client.Client
	unlock    func() // set by LockUntilClose
}

// ErrNoExperiment means that the user has no own site yet.
var ErrNoExperiment = errors.New("you have no experiment here; begin with: " + display.Command("up", "--example"))

// Open selects an aggregate and a user's folder, as Selection.Target does, and opens the
// aggregate's site if it is on this host. If the user's own site is selected, Open serves it. If
// creating is true, it creates a missing own site and a missing user.
func Open(ctx context.Context, o Selection, messages io.Writer, creating bool) (*Session, error) {
	s := &Session{Choice: o, Messages: messages}
	o.API = 3
	o.prepare = func(own ownsite.Site) (ownsite.Site, error) {
		own, err := own.Choose(ctx, messages, creating)
		switch {
		case err != nil || !own.Exists() && own.Home == "" && own.UserFolder() != "": // root serves this site
			return own, err
		case !creating && !own.Exists():
			return own, ErrNoExperiment
		}
		return own, own.Open(ctx, messages)
	}
	if creating {
		o.makeUser = func(name string) (string, error) { return s.makeUser(ctx, name) }
	}
	t, err := o.Target(ctx)
	if err != nil {
		return nil, err
	}
	s.Aggregate, s.Own, s.Config = t.Aggregate, t.own, t.Config
	switch {
	case len(t.Paths) > 0 && userfolder.IsFolder(t.Paths[0]):
		s.Dir, err = filepath.Abs(t.Paths[0])
	case o.URL != "":
		err = errors.New("--url needs --user FOLDER, the folder of a user of that aggregate")
	case len(o.Users) > 0:
		err = errors.New("--user needs the name of a user, or a user's folder")
	default:
		err = ErrNoExperiment
	}
	if err != nil {
		return nil, err
	}
	return s, s.openSite(ctx)
}

// openSite opens the aggregate's site if it is on this host and this user may read it.
func (s *Session) openSite(ctx context.Context) error {
	file := userfolder.SiteOf(filepath.Join(s.Dir, "x"))
	if o := s.Choice; o.Site.IsGiven() || s.Own != nil && s.Own.Exists() {
		file = o.Site.Path()
	}
	if s.Config == nil && file != "" {
		config, err := s.Choice.Site.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		s.Config = config
	}
	if s.Config == nil {
		return nil
	}
	t, err := userfolder.OpenTrial(ctx, s.Config)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	s.Trial = t
	return err
}

// makeUser returns the folder of a new user. The name "" means firstUser. If the site has no
// trial authority, makeUser returns "".
func (s *Session) makeUser(ctx context.Context, name string) (string, error) {
	config, err := s.Choice.Site.Read()
	if err != nil {
		return "", err
	}
	t, err := userfolder.OpenTrial(ctx, config)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	unlock, err := userfolder.Lock(ctx, t.Dir, s.Messages) // another command may create the same user
	if err != nil {
		return "", err
	}
	defer unlock()
	name = cmp.Or(name, firstUser)
	isNew := !userfolder.FileExists(userfolder.Path(t.Dir, name))
	if users := userfolder.Users(filepath.Join(t.Dir, site.UsersDir)); isNew && s.Own == nil && len(s.Choice.Users) > 0 && len(users) > 0 {
		return "", fmt.Errorf("there is no user %s here; %screate it with: %s", name, userfolder.SuggestNames(name, users), display.CommandAt(config.Origin.File, "user", name))
	}
	u, _, err := t.WriteUser(name, false, time.Now())
	if err != nil {
		return "", err
	}
	if s.Own == nil && isNew {
		fmt.Fprintf(s.Messages, "Created the user %s of %s.\n", u.Name, config.Authority)
	}
	return u.Dir, nil
}

// Hint returns a command line that is safe for a terminal. The flags come before args[1:],
// since ssh passes all words after NODE to the node.
func (s *Session) Hint(args ...string) string {
	o := s.Choice
	rest := args[1:]
	args = args[:1:1]
	if o.URL == os.Getenv(site.EnvPrefix+"URL") {
		o.URL = "" // the next command reads it from the environment, too
	}
	for _, f := range [][2]string{{"user", strings.Join(o.Users, "")}, {"url", o.URL}, {"ca", o.CA}} {
		if f[1] != "" {
			args = append(args, "--"+f[0], f[1])
		}
	}
	if o.Site.IsFlag {
		args = append(args, "--config", o.Site.File)
	}
	return display.Line(display.Command(append(args, rest...)...))
}

// Explain adds the command that starts the site if the error means that the site is not
// running.
func (s *Session) Explain(err error) error {
	switch {
	case !errors.Is(err, syscall.ECONNREFUSED) || s.Choice.URL != "" && !s.Choice.Site.IsGiven():
		return err
	case s.Own != nil && s.Own.UserFolder() != "":
		return fmt.Errorf("%w\nyour own site is not running, as after a reboot; start it with: %s", err, display.AsRoot(display.Program, "status"))
	case s.Config != nil:
		return fmt.Errorf("%w\nthe site is not running; start it with: %s", err, ServeCommand(s.Config.Origin.File))
	}
	return err
}

// IsUnreachable reports whether an error means that the aggregate does not answer.
func IsUnreachable(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// LockUntilClose locks the user's folder until close.
func (s *Session) LockUntilClose(ctx context.Context) (err error) {
	s.unlock, err = s.Lock(ctx)
	return err
}

// Close ends the connections, and unlocks the folder.
func (s *Session) Close() {
	if s.unlock != nil {
		s.unlock()
	}
	for _, c := range s.opened {
		c.Close()
	}
}

// Lock locks the user's folder against other commands.
func (s *Session) Lock(ctx context.Context) (unlock func(), err error) {
	return userfolder.Lock(ctx, s.Dir, s.Messages)
}

// SliceOr returns the given name, or else the only slice with nodes.
func (s *Session) SliceOr(ctx context.Context, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	switch have := s.WithNodes(ctx, s.Usable()); len(have) {
	case 0:
		return "", fmt.Errorf("there are no nodes; begin with: %s", s.Hint("up", "--example"))
	case 1:
		return have[0], nil
	default:
		return "", fmt.Errorf("several slices could be meant; name one of: %s", strings.Join(have, ", "))
	}
}

// UserName returns the user's name at the site.
func (s *Session) UserName() string {
	if names := userfolder.Names(s.Dir, "*-usercred.xml", "-usercred.xml"); len(names) > 0 {
		return strings.ToLower(names[0])
	}
	return filepath.Base(s.Dir)
}

func (s *Session) userURN(name string) string {
	return urn.URN{Authority: s.Trial.URN().Authority, Type: urn.User, Name: name}.String()
}

// Experiments returns the slices that "patchbay up" has created, without names that have
// control characters. Each has a request in the user's folder.
func (s *Session) Experiments() []string {
	names := userfolder.Names(filepath.Join(s.Dir, "slices"), "*.request.xml", ".request.xml")
	return slices.DeleteFunc(names, func(name string) bool { return display.Line(name) != name })
}

// OtherSlices returns the slices that have a credential and that "patchbay up" did not
// create.
func (s *Session) OtherSlices() []string {
	mine := s.Experiments()
	return slices.DeleteFunc(userfolder.Slices(s.Dir), func(name string) bool {
		return slices.Contains(mine, name) || display.Line(name) != name
	})
}

// SharedWithUser reports whether another user has delegated a slice to this user.
func (s *Session) SharedWithUser(name string) bool {
	text, err := site.ReadRegular(s.SliceFile(name, "-cred.xml"))
	return err == nil && userfolder.IsDelegated(text)
}

// Usable returns all slices for which the user has a credential or a request.
func (s *Session) Usable() []string { return append(s.Experiments(), s.OtherSlices()...) }

// WriteSSH writes ssh_config and known_hosts for all slices.
func (s *Session) WriteSSH() error {
	var all []experiment.Host
	for _, name := range s.Usable() {
		hosts, _, err := s.Hosts(name)
		if err != nil {
			return err
		}
		all = append(all, hosts...)
	}
	if err := s.pruneKnownHosts(all); err != nil {
		return err
	}
	if err := s.SSHFiles().Check(); err != nil {
		return err
	}
	return site.ReplaceFile(s.File("ssh_config"), experiment.SSHConfig(all, s.SSHFiles()), 0o600)
}

// SSHFiles returns the files that ssh_config names.
func (s *Session) SSHFiles() experiment.SSHFiles {
	files := experiment.SSHFiles{Identity: s.File("id_ed25519"), KnownHosts: s.File("known_hosts")}
	if !userfolder.FileExists(files.Identity) { // the user may have a key elsewhere
		files.Identity = ""
	}
	return files
}

// pruneKnownHosts removes the host keys of nodes that no longer exist. It replaces a
// symbolic link by an empty file, since OpenSSH would write to the link's target. Root
// reads the file with the rights of the folder's owner.
func (s *Session) pruneKnownHosts(hosts []experiment.Host) error {
	path := s.File("known_hosts")
	link := isLink(path)
	var known []byte
	if !link {
		err := file.AsOwner(s.Dir, func() (err error) { known, err = site.ReadRegular(path); return err })
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // root's ssh may have created the file
			return err
		}
	}
	if pruned := experiment.PruneKnownHosts(known, hosts); link || len(pruned) != len(known) {
		return site.ReplaceFile(path, pruned, 0o600)
	}
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// File returns the path of a file in the user's folder.
func (s *Session) File(name string) string { return filepath.Join(s.Dir, name) }

// SliceName derives a name from the name of a file.
func SliceName(file string) string {
	const most = 19
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	name := strings.Trim(notInSlices.ReplaceAllString(base, "-"), "-")
	name = strings.TrimRight(name[:min(len(name), most)], "-")
	return cmp.Or(name, "experiment")
}

var notInSlices = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Hosts reads the slice's stored manifest. It returns no nodes if no manifest is stored.
// The time is the end of the leases.
func (s *Session) Hosts(name string) (list []experiment.Host, expires time.Time, err error) {
	file := s.SliceFile(name, ".manifest.xml")
	text, err := site.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, expires, nil
	}
	if err != nil {
		return nil, expires, err
	}
	m, err := experiment.ReadManifest(text, AccountOf(s.UserName()))
	if err != nil {
		return nil, expires, fmt.Errorf("%s: %w", file, err)
	}
	return experiment.Hosts(name, m.Nodes), m.Expires, nil
}

// IsSimulated reports whether a node is simulated and so has no login. It returns false if
// this user cannot read the site's inventory.
func (s *Session) IsSimulated(h experiment.Host) bool {
	if s.Config == nil {
		return false
	}
	if s.inventory == nil {
		var err error
		if s.inventory, err = s.Config.LoadInventory(); err != nil {
			s.inventory = new(inventory.Inventory)
		}
	}
	c, ok := s.inventory.ComponentNamed(h.Component)
	return ok && c.Provider == create.Simulated
}

// WithNodes returns the slices that have nodes, or whose nodes cannot be read: the next call for
// such a slice reports the error.
func (s *Session) WithNodes(ctx context.Context, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		x, err := s.OpenSlice(ctx, name, 0, false)
		if err != nil {
			return false
		}
		a, err := x.Describe(ctx)
		return err == nil && len(a.Slivers) == 0
	})
}
