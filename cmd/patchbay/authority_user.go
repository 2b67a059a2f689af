package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

const userLong = `Create users of the site's trial authority: for each a certificate, its key, a user
credential, an SSH key pair, an omni_config and the URL of the site, in users/NAME beside
the configuration. An existing user does not change; --renew writes fresh credentials,
with the same certificate and keys.

A NAME is a letter and up to 31 letters, digits, hyphens or underscores. In lower case it
is the login on the nodes; names that systems reserve, such as admin, get a number at the end.

With --ssh-key FILE the user has SSH keys of their own: FILE has the public keys, and no
key pair is created.

For a class, give all names, or a list with one user a line: the NAME and optionally the
SSH key, as a file (relative to the list) or as the text of the public key. A list whose
first line has commas is CSV with the columns name and, optionally, ssh_key; other columns
are ignored. Lines that begin with # are comments. If any line is wrong, nothing is
created. Repeat the command with a longer list to add users.

--slice lab1 creates a slice for each user: lab1-NAME, with a hyphen for each underscore.
--bundle DIR packs the files that each user needs on another machine into DIR/NAME.zip,
with instructions in README.txt.

Clients that read credentials from files can use them: omni, geni-lib, patchbay call. If the
site serves the trial authority, omni gets its credentials there, and "patchbay login --jfed"
writes the files for jFed.`

type userOptions struct {
	site    siteFlag
	Names   []string
	List    string
	SSHKey  string
	Slice   string
	Expires string
	Bundle  string
	Renew   bool
	life    time.Duration
}

func (o *userOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.List, "list", "", "create the users in this file, one a line; - is standard input")
	fs.StringVar(&o.SSHKey, "ssh-key", "", "a file with the user's own public SSH keys")
	fs.StringVar(&o.Slice, "slice", "", "also create a slice for each user: SLICE-NAME")
	fs.StringVar(&o.Expires, "expires", "7d", "with --slice: how long its credential lasts; no sliver lives longer")
	fs.StringVar(&o.Bundle, "bundle", "", "pack the files that each user needs elsewhere into this folder, as NAME.zip")
	fs.BoolVar(&o.Renew, "renew", false, "write fresh credentials for existing users and slices")
}

func (o *userOptions) Validate(args []string) (err error) {
	o.Names = args
	switch {
	case o.List == "" && len(args) == 0:
		return errors.New("name the users to create, or give a file with --list")
	case o.List != "" && len(args) > 0:
		return fmt.Errorf("--list names the users; leave out %q, or write it into the list", args[0])
	case o.SSHKey != "" && (o.List != "" || len(args) > 1):
		return errors.New("--ssh-key is for one user; for several, write the keys after the names in a list: --list FILE")
	}
	if o.Slice != "" {
		if err := trial.CheckSlice(o.Slice); err != nil {
			return fmt.Errorf("--slice: %w", err)
		}
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

func (o *userOptions) Run(ctx context.Context, c console) error {
	t, unlock, err := o.site.lockTrial(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	if o.List != "" || len(o.Names) > 1 || o.Slice != "" || o.Bundle != "" {
		return o.makeClass(t, c)
	}
	var keys []byte
	if o.SSHKey != "" {
		if keys, err = readSSHKeys(o.SSHKey); err != nil {
			return fmt.Errorf("--ssh-key: %w", err)
		}
	}
	u, made, err := t.writeUserWithKeys(o.Names[0], keys, o.Renew, time.Now())
	if err != nil {
		return err
	}
	what := "exists already"
	switch {
	case made && o.Renew:
		what = "has a fresh credential"
	case made:
		what = "was created"
	}
	fmt.Fprintf(c.out, "User %s %s, in %s:\n\n", u.URN, what, u.Dir)
	ssh := [2]string{"id_ed25519", "SSH key for the nodes; id_ed25519.pub is its public half"}
	if len(u.SSHKey) == 0 {
		ssh = [2]string{ownKeys, "the user's own SSH keys, public halves"}
	}
	for _, line := range [][2]string{
		{u.file("cert.pem"), "certificate"},
		{u.file("key.pem"), "its key; keep it private"},
		{u.file("usercred.xml"), "user credential"},
		ssh,
		{aggregateName, "URL and certificates of the site"},
		{"omni_config", "configuration for omni"},
	} {
		if exists(filepath.Join(u.Dir, line[0])) {
			fmt.Fprintf(c.out, "  %-24s %s\n", line[0], line[1])
		}
	}
	if login := loginOf(u.URN); login != strings.ToLower(u.Name) {
		fmt.Fprintf(c.out, "\nSystems reserve the name %s, so the login on nodes is %s.\n", strings.ToLower(u.Name), login)
	}
	fmt.Fprintf(c.out, "\nList what the site offers:\n  %s\n  %s\n",
		t.omni(u, "", "listresources"), t.call(u, "ListResources"))
	fmt.Fprintf(c.out, "\nThen create a slice:\n  %s\nor a slice with the nodes of a request:\n  %s\n",
		display.CommandAt(t.config.Origin.File, "slice", "first", "--owner", u.Name), display.CommandAt(t.config.Origin.File, "up", "request.xml", "--user", u.Name))
	return nil
}

// loginOf returns the user's login on a node without other users.
func loginOf(user urn.URN) string { return am.LoginName(user, func(string) bool { return false }) }

type trialSite struct {
	*authority.Authority
	config *site.Config
	dir    string
	URL    string // for API version 3
}

// lockTrial opens the trial authority for writing: that of the site of --config or of the current
// folder, else that of the user's own site. Other commands that write to it wait until unlock is called.
func (f *siteFlag) lockTrial(ctx context.Context, c console) (t *trialSite, unlock func(), err error) {
	if own := (&targetFlags{site: f, prepare: func(own ownSite) (ownSite, error) { return own.choose(ctx, c, false) }}); !own.isNamed() {
		o, err := own.findOwn()
		if err == nil && !o.exists() && o.userFolder() != "" {
			err = errors.New("your own site belongs to root; repeat the command with sudo")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	config, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	if t, err = openTrial(ctx, config); err != nil {
		return nil, nil, err
	}
	unlock, err = lockFolder(ctx, t.dir, c)
	return t, unlock, err
}

// openTrial fails with an error that wraps fs.ErrNotExist if the site has no trial authority.
func openTrial(ctx context.Context, c *site.Config) (*trialSite, error) {
	dir := filepath.Dir(c.Origin.File)
	a, err := c.OpenAuthority()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noTrial{fmt.Sprintf("this site has no trial authority in %s; users come from the authorities in %s", filepath.Join(dir, site.AuthorityDir), c.Trusted)}
	}
	if err != nil {
		return nil, err
	}
	return &trialSite{a, c, dir, publicURL(ctx, c) + "/am/3.0"}, nil
}

type noTrial struct{ text string }

func (e noTrial) Error() string { return e.text }
func (e noTrial) Unwrap() error { return fs.ErrNotExist }

type trialUser struct {
	trial.User
	Name, Dir string
}

// file returns the name of one of the user's files, and path returns the path of this file.
func (u *trialUser) file(suffix string) string { return u.Name + "-" + suffix }
func (u *trialUser) path(suffix string) string { return filepath.Join(u.Dir, u.file(suffix)) }

// ownKeys is the name of the file with the public SSH keys of a user without a key pair from
// the authority.
const ownKeys = "id_own.pub"

func (t *trialSite) writeUser(name string, renew bool, now time.Time) (_ *trialUser, wrote bool, err error) {
	return t.writeUserWithKeys(name, nil, renew, now)
}

// writeUserWithKeys writes all files for a new user, or if renew is true. Otherwise it writes
// missing files, and changed files about the site or the SSH keys. If keys is not empty, it
// replaces the user's SSH keys.
func (t *trialSite) writeUserWithKeys(name string, keys []byte, renew bool, now time.Time) (_ *trialUser, wrote bool, err error) {
	x, err := t.UserWithKeys(name, keys, now)
	if err != nil {
		return nil, false, err
	}
	name = x.URN.Name // upper and lower case as in the first command for this user
	u := &trialUser{User: x, Name: name, Dir: folderOfUser(t.dir, name)}
	follow, err := t.aggregateFiles() // files that are rewritten if their content has changed
	if err != nil {
		return nil, false, err
	}
	changed := !exists(filepath.Join(u.Dir, ownKeys))
	config := site.File{Name: "omni_config", Content: t.omniConfig(u, u.Dir), Mode: 0o644}
	all := []site.File{
		{Name: u.file("cert.pem"), Content: x.Certificate, Mode: 0o644},
		{Name: u.file("key.pem"), Content: x.Key, Mode: 0o600},
		{Name: u.file("usercred.xml"), Content: x.Credential, Mode: 0o600},
	}
	if len(x.SSHKey) > 0 {
		all = append(all, site.File{Name: "id_ed25519", Content: x.SSHKey, Mode: 0o600}, site.File{Name: "id_ed25519.pub", Content: x.SSHPublicKey, Mode: 0o644}, config)
	} else {
		follow = append(follow, site.File{Name: ownKeys, Content: x.SSHPublicKey, Mode: 0o644})
		if changed { // the present omni_config names the key pair that is removed below
			follow = append(follow, config)
		}
		all = append(all, config)
	}
	var files []site.File
	for _, f := range all {
		_, err := os.Lstat(filepath.Join(u.Dir, f.Name))
		if renew || errors.Is(err, fs.ErrNotExist) {
			files = append(files, f)
		} else if err != nil {
			return nil, false, err
		}
	}
	for _, f := range follow {
		if have, err := site.ReadRegular(filepath.Join(u.Dir, f.Name)); err != nil || !bytes.Equal(have, f.Content) {
			files = append(files, f)
		}
	}
	if err := site.WriteFiles(u.Dir, files); err != nil {
		return nil, false, err
	}
	if len(x.SSHKey) > 0 {
		return u, len(files) > 0, nil
	}
	for _, name := range []string{"id_ed25519", "id_ed25519.pub"} {
		if err := removeFile(filepath.Join(u.Dir, name)); err != nil {
			return nil, false, err
		}
	}
	return u, len(files) > 0, nil
}

// parseLifetime turns a duration that is too long for time.Duration into the longest possible one.
func parseLifetime(s string) (time.Duration, error) {
	life, err := display.ParseDuration(s)
	switch {
	case errors.Is(err, display.ErrTooLong):
		return math.MaxInt64, nil
	case err != nil:
		return 0, fmt.Errorf("--expires: %w", err)
	case life == 0:
		return 0, fmt.Errorf("--expires %s is no duration; give one such as 2h", s)
	}
	return life, nil
}

// expiry fails if the trial authority's certificate ends before the credential.
func (t *trialSite) expiry(life time.Duration, now time.Time) (time.Time, error) {
	if longest := t.Expires().Sub(now); life >= longest {
		return time.Time{}, fmt.Errorf("--expires is too long: the trial authority ends on %s, so the longest is %dd",
			t.Expires().Format(time.DateOnly), max(0, longest-time.Minute)/(24*time.Hour))
	}
	return now.Add(life), nil
}

// omniConfig returns an omni_config. dir is the folder of the files that it names; "" means the
// current folder.
func (t *trialSite) omniConfig(u *trialUser, dir string) []byte {
	manager := t.URN()
	manager.Name = "cm"
	return omniSettings{
		User: u.URN, Manager: manager.String(), URL: strings.TrimSuffix(t.URL, "/am/3.0"), Dir: dir, Keys: u.publicKeys(),
		Authority: t.config.TrialAuthority.Serve && t.port() != "0",
	}.text()
}

// omniSettings are the content of an omni_config.
type omniSettings struct {
	User    urn.URN
	Manager string // the URN of the aggregate
	URL     string // https://HOST:PORT
	Dir     string // the folder of the user's files; "" for the current folder
	Keys    string // the file of the public SSH keys
	// Authority means that omni gets credentials from the authority at the URL. Otherwise they come
	// from files, and the key ch is not used.
	Authority bool
}

// text calls the user's section user-NAME, so that it cannot have the name of another section of
// omni.
func (o omniSettings) text() []byte {
	escape := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	file := func(name string) string { return escape(filepath.Join(o.Dir, name)) }
	about, framework := "Credentials are given as files: --usercredfile and --slicecredfile.", "type = gcf\nch = https://localhost:1"
	if o.Authority {
		about, framework = "omni gets credentials from the authority at ch.", "type = chapi\nch = "+escape(o.URL)+"/ch/2\nspeakv2 = true\nuseprojects = false"
	}
	return fmt.Appendf(nil, `# For omni, as user %[1]s of the trial authority of %[2]s.
# %[9]s

[omni]
default_cf = trial-authority
users = user-%[1]s

[trial-authority]
%[10]s
authority = %[2]s
cert = %[3]s
key = %[4]s

[user-%[1]s]
urn = %[5]s
keys = %[6]s

[aggregate_nicknames]
site = %[7]s,%[8]s/am/3.0
`, o.User.Name, o.User.Authority, file(o.User.Name+"-cert.pem"), file(o.User.Name+"-key.pem"), o.User, file(o.Keys), o.Manager, escape(o.URL), about, framework)
}

func (u *trialUser) publicKeys() string {
	if len(u.SSHKey) == 0 {
		return ownKeys
	}
	return "id_ed25519.pub"
}

// omni returns a command line of omni.py. slice is a file with a slice credential, or "" for
// none.
func (t *trialSite) omni(u *trialUser, slice string, args ...string) string {
	line := []string{"omni.py", "-c", filepath.Join(u.Dir, "omni_config"), "-a", t.URL, "-V", "3", "--usercredfile", u.path("usercred.xml")}
	if slice != "" {
		line = append(line, "--slicecredfile", slice)
	}
	return display.ShellLine(append(line, args...))
}

func (t *trialSite) call(u *trialUser, args ...string) string {
	return display.CommandAt(t.config.Origin.File, append([]string{"call", "--user", u.Name}, args...)...)
}
