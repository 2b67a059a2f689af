package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/site"
	"patchbay/am/urn"
)

// experimenterFlags say whose experiments a verb is about, and at which aggregate.
type experimenterFlags struct {
	site          siteFlag
	URL, CA, User string
}

func (o *experimenterFlags) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.URL, "url", os.Getenv(site.EnvPrefix+"URL"), "the aggregate manager, instead of a site of this host; also PATCHBAY_URL")
	fs.StringVar(&o.CA, "ca", "", "a file with certificates that vouch for the server")
	fs.StringVar(&o.User, "user", "", "the user: a name at the site, or a user's folder (default: the only one there is)")
}

// session is one user at one aggregate.
type session struct {
	console
	flags *experimenterFlags
	// dir is the user's folder.
	dir string
	aggregate
	// config is the site on this host, and trial its trial authority; nil where there
	// is none, or none that this user may read.
	config *site.Config
	trial  *trialSite
	own    *ownSite // nil unless it is the user's own
	opened []*client.Client
}

// errNothingYet says that the user has no site of their own.
var errNothingYet = errors.New("you have no experiment here")

// open finds the aggregate and the user. The aggregate is that of --url, of --config, of
// the user's folder, of the site in the current folder, or of the user's own site, which is
// served then; only with begin it is made, and a user, too, where there is none.
func (o *experimenterFlags) open(ctx context.Context, c console, begin bool) (*session, error) {
	s := &session{console: c, flags: o}
	if err := s.findAggregate(ctx, begin); err != nil {
		return nil, err
	}
	if s.config != nil {
		t, err := openTrial(ctx, s.config)
		switch {
		case err == nil:
			s.trial = t
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return nil, err
		}
	}
	if s.dir == "" {
		unlock, err := lockFolder(ctx, filepath.Dir(s.config.Origin.File), c) // two may want the same user made
		if err != nil {
			return nil, err
		}
		err = s.findUser(begin)
		unlock()
		if err != nil {
			return nil, err
		}
	}
	var err error
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, err
	}
	if o.CA != "" {
		s.CA = o.CA
	}
	return s, nil
}

// findAggregate finds the aggregate, and the user's folder where that names it.
func (s *session) findAggregate(ctx context.Context, begin bool) error {
	o := s.flags
	folder := "."
	if isFolder(o.User) {
		folder = o.User
	}
	if isUserFolder(folder) && (!o.site.given() || o.User != "") {
		s.dir = folder
	}
	if s.URL = o.URL; s.URL != "" && !o.site.given() {
		if s.dir == "" {
			return errors.New("--url needs --user FOLDER, the folder of a user of that aggregate")
		}
		return nil
	}
	if !o.site.given() && s.dir != "" {
		a, err := readAggregate(s.dir)
		if err == nil {
			s.aggregate = a
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if at := siteOf(filepath.Join(s.dir, "x")); at != "" {
			o.site.file = at
		}
	}
	if o.site.given() || exists(o.site.path()) {
		config, err := o.site.read()
		if s.config = config; err != nil || s.URL != "" {
			return err
		}
		if s.URL = urlOf(ctx, config); strings.HasSuffix(config.Listen, ":0") && config.PublicURL == "" {
			return errors.New("the site listens on any free port; give --url with what serve has printed")
		}
		return nil
	}
	own, err := findOwnSite()
	if err != nil {
		return err
	}
	s.own = &own
	if !begin && !own.exists() {
		return errNothingYet
	}
	if err := own.open(ctx, s.console); err != nil {
		return err
	}
	if s.config, err = own.read(); err == nil {
		s.URL = urlOf(ctx, s.config)
	}
	return err
}

// urlOf is the URL of version 3 of the API of a site on this host.
func urlOf(ctx context.Context, c *site.Config) string {
	return strings.TrimSuffix(cmp.Or(c.PublicURL, site.PublicURLOf(ctx, c.Listen)), "/") + "/am/3.0"
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return name != "" && err == nil && info.IsDir()
}

// isUserFolder tells whether a folder is one that "patchbay user" writes.
func isUserFolder(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*-cert.pem"))
	return len(files) > 0
}

// findUser finds the user's folder in the site. With begin, a user is made where there
// is none.
func (s *session) findUser(begin bool) error {
	users := filepath.Join(filepath.Dir(s.config.Origin.File), site.UsersDir)
	names := folksIn(users)
	name := s.flags.User
	if name == "" {
		switch {
		case len(names) == 1:
			name = names[0]
		case len(names) > 1:
			return fmt.Errorf("several users could be meant; say which one with --user NAME: %s", strings.Join(names, ", "))
		case s.own != nil && s.own.login != "root" && userNames.MatchString(s.own.login):
			name = s.own.login
		default:
			name = "alice"
		}
	}
	s.dir = filepath.Join(users, strings.ToLower(name))
	if isUserFolder(s.dir) || begin && s.trial != nil {
		if s.trial == nil {
			return nil
		}
		_, _, err := s.trial.user(name, false, time.Now())
		return err
	}
	if len(names) == 0 && s.flags.User == "" {
		return errNothingYet
	}
	return fmt.Errorf("there is no user %s in %s; %smake one with: %s", name, users, instead(name, names), s.hint("user", name))
}

// userNames are the names that a login at the host and a user of a trial authority may
// both have.
var userNames = regexp.MustCompile(`^[a-z][a-z0-9_]{0,7}$`)

// hint is a command line about the same aggregate and user. Flags stand before what
// may be a command in a node.
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
	return display.Command(append(args, rest...)...)
}

func (s *session) close() {
	for _, c := range s.opened {
		c.Close()
	}
}

// lock has this process alone work with the user's slices.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	return lockFolder(ctx, s.dir, s.console)
}

// slice is what a user's folder keeps of one slice.
type slice struct {
	*experiment.Experiment
	session *session
	name    string
}

func (s *session) sliceFile(name, suffix string) string {
	return filepath.Join(s.dir, "slices", name+suffix)
}

// minimumLife is how long credentials of the trial authority must still last, or they
// are made anew.
const minimumLife = 24 * time.Hour

// openSlice opens a slice of the user. Its credentials are renewed where this site's own
// authority gave them, so that they last for a lease of life; with begin, a slice that does not
// exist is made.
func (s *session) openSlice(name string, life time.Duration, begin bool) (*slice, error) {
	if s.trial != nil {
		if err := s.renewCredentials(name, life, begin); err != nil {
			return nil, err
		}
	}
	me, err := readCaller([]string{s.dir}, name)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: s.URL, CertFile: me.certFile, KeyFile: me.keyFile, ServerCAFile: s.CA})
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, c)
	return &slice{&experiment.Experiment{
		Client: c, Slice: me.sliceURN, Credentials: me.forSlice(), Users: me.users(), Progress: func(experiment.Phase, []client.Sliver) {},
	}, s, name}, nil
}

// renewCredentials makes the credentials of a user and a slice anew that are missing or
// end too soon. What another user has lent is left alone.
func (s *session) renewCredentials(name string, life time.Duration, begin bool) error {
	now := time.Now()
	user := filepath.Base(s.dir)
	until := func(file string) time.Time {
		text, err := site.ReadRegular(file)
		if err != nil {
			return time.Time{}
		}
		c, _ := readCredential(text)
		if isLent(text) || c.owner == "" || !strings.HasPrefix(c.owner, s.userURN("")) {
			return now.Add(100 * 365 * 24 * time.Hour)
		}
		return c.expires
	}
	for _, file := range globbed(filepath.Join(s.dir, "*-usercred.xml")) {
		if until(file).Before(now.Add(minimumLife)) {
			if _, _, err := s.trial.user(strings.TrimSuffix(filepath.Base(file), "-usercred.xml"), true, now); err != nil {
				return err
			}
		}
	}
	file := s.sliceFile(name, "-cred.xml")
	if !exists(file) && !begin || !until(file).Before(now.Add(max(life+time.Hour, minimumLife))) {
		return nil
	}
	if has := s.trial.othersWith(name, user); has != "" {
		return fmt.Errorf("%s has the slice %s; give yours another name with --slice, or have it lent: %s", has, name, s.hint("delegate", name, "--from", has, "--to", user))
	}
	longest := s.trial.Expires().Sub(now) - time.Minute
	_, _, _, err := s.trial.slice(name, user, now.Add(min(max(7*24*time.Hour, life+time.Hour), longest)), now)
	return err
}

// userURN is the URN of a user of the trial authority.
func (s *session) userURN(name string) string {
	return urn.URN{Authority: s.trial.URN().Authority, Type: urn.User, Name: name}.String()
}

func globbed(pattern string) []string {
	files, _ := filepath.Glob(pattern)
	return files
}

// experiments are the slices of which the folder keeps a request: those that up has made.
func (s *session) experiments() []string {
	return namesOf(filepath.Join(s.dir, "slices", "*.request.xml"), ".request.xml")
}

// write writes a file of the slice.
func (x *slice) write(suffix string, text []byte) error {
	return site.ReplaceFile(x.session.sliceFile(x.name, suffix), text, 0o600)
}

// forget removes what is kept of a slice, but its credential.
func (x *slice) forget() error {
	for _, suffix := range []string{".request.xml", ".manifest.xml"} {
		if err := removeFile(x.session.sliceFile(x.name, suffix)); err != nil {
			return err
		}
	}
	return x.session.writeSSH()
}

// writeSSH writes the files for OpenSSH, from the manifests of all slices.
func (s *session) writeSSH() error {
	var all []experiment.Host
	for _, name := range s.experiments() {
		hosts, _, err := s.hosts(name)
		if err != nil {
			return err
		}
		all = append(all, hosts...)
	}
	known, err := site.ReadRegular(s.file("known_hosts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if pruned := experiment.PruneKnownHosts(known, all); len(pruned) != len(known) {
		if err := site.ReplaceFile(s.file("known_hosts"), pruned, 0o600); err != nil {
			return err
		}
	}
	files := experiment.SSHFiles{Identity: s.file("id_ed25519"), KnownHosts: s.file("known_hosts")}
	if !exists(files.Identity) { // users who brought their own keys have none here
		files.Identity = ""
	}
	if err := files.Check(); err != nil {
		return err
	}
	return site.ReplaceFile(s.file("ssh_config"), experiment.SSHConfig(all, files), 0o600)
}

func (s *session) file(name string) string { return filepath.Join(s.dir, name) }

// refresh asks the aggregate for the manifest and the slivers, and keeps the manifest.
func (x *slice) refresh(ctx context.Context) (client.Answer, error) {
	a, err := x.Describe(ctx)
	if err != nil || len(a.Slivers) == 0 {
		return a, err
	}
	if err := x.write(".manifest.xml", []byte(a.RSpec)); err != nil {
		return a, err
	}
	return a, x.session.writeSSH()
}

// earliestEnd is the earliest end of leases.
func earliestEnd(list []client.Sliver) (end time.Time) {
	for _, s := range list {
		if end.IsZero() || s.Expires.Before(end) {
			end = s.Expires
		}
	}
	return end
}

// sliceNameOf makes the name of a slice of the name of a file.
func sliceNameOf(file string) string {
	const most = 19
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	name := strings.Trim(notInSlices.ReplaceAllString(base, "-"), "-")
	name = strings.TrimRight(name[:min(len(name), most)], "-")
	return cmp.Or(name, "experiment")
}

var notInSlices = regexp.MustCompile(`[^A-Za-z0-9]+`)

// nodesNamed are the hosts that somebody means with a name: NODE or NODE.SLICE.
func nodesNamed(hosts []experiment.Host, name string) []experiment.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h experiment.Host) bool {
		return h.Name != name && h.Alias != name && strings.TrimSuffix(h.Alias, "."+experiment.Domain) != strings.ToLower(name)
	})
}
