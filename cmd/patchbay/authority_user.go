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
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

const userLong = `Make users of the site's private trial authority: for each a certificate, its key, a
user credential, an SSH key pair, an omni_config and the address of the site, in
users/NAME beside the configuration. A user that exists is left as it is; --renew
writes fresh credentials, with the same certificate and keys.

A NAME is a letter and up to 31 letters, digits, hyphens or underscores. In lower
case it is the login on the nodes; one that systems reserve, such as admin, gets a
number there.

With --ssh-key FILE the user brings SSH keys of their own: FILE holds the public
ones, and no private one is made.

For a class, give all names, or a list: one user a line, the NAME and perhaps the
SSH key, as a file (by its path from the list) or as the text of the public key. A
list whose first line has commas is CSV with the columns name and, perhaps, ssh_key;
other columns do not count. A line that begins with # is a comment. If a line is
wrong, nothing is made. Done again with a longer list, it makes what is new.

--slice lab1 makes a slice for each: lab1-NAME, with a hyphen for each underscore.
--bundle DIR packs for each what they need on a machine of their own, DIR/NAME.zip;
README.txt in it says how to go on.

Any client that reads credentials from files works with them: omni, geni-lib,
patchbay call. jFed logs in only through an authority it knows.`

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
	fs.StringVar(&o.List, "list", "", "make the users of this file, one a line; - is standard input")
	fs.StringVar(&o.SSHKey, "ssh-key", "", "a file with the user's own public SSH keys")
	fs.StringVar(&o.Slice, "slice", "", "make each user a slice, too: SLICE-NAME")
	fs.StringVar(&o.Expires, "expires", "7d", "with --slice: how long its credential lasts; no sliver lives longer")
	fs.StringVar(&o.Bundle, "bundle", "", "pack what each user needs elsewhere into this folder, as NAME.zip")
	fs.BoolVar(&o.Renew, "renew", false, "write fresh credentials for users, and slices, that exist")
}

func (o *userOptions) Validate(args []string) (err error) {
	o.Names = args
	switch {
	case o.List == "" && len(args) == 0:
		return errors.New("name the users to make, or give a file with --list")
	case o.List != "" && len(args) > 0:
		return fmt.Errorf("--list names the users; leave out %q, or write it into the list", args[0])
	case o.SSHKey != "" && (o.List != "" || len(args) > 1):
		return errors.New("--ssh-key is about one user; for several write the keys into a list, behind the names: --list FILE")
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
	t, unlock, err := o.site.trial(ctx, c)
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
	u, made, err := t.userWithKeys(o.Names[0], keys, o.Renew, time.Now())
	if err != nil {
		return err
	}
	what := "exists already"
	switch {
	case made && o.Renew:
		what = "has a fresh credential"
	case made:
		what = "was made"
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
		{aggregateName, "where the site is"},
		{"omni_config", "configuration for omni"},
	} {
		if exists(filepath.Join(u.Dir, line[0])) {
			fmt.Fprintf(c.out, "  %-24s %s\n", line[0], line[1])
		}
	}
	if login := loginOf(u.URN); login != strings.ToLower(u.Name) {
		fmt.Fprintf(c.out, "\nSystems reserve the name %s, so the login on nodes is %s.\n", strings.ToLower(u.Name), login)
	}
	fmt.Fprintf(c.out, "\nWhat does the site offer?\n  %s\n  %s\n",
		t.omni(u, "", "listresources"), t.call(u, "ListResources"))
	fmt.Fprintf(c.out, "\nThen make a slice:\n  %s\nor a slice with the nodes of a request, all at once:\n  %s\n",
		display.CommandAt(t.config.Origin.File, "slice", "first", "--owner", u.Name), display.CommandAt(t.config.Origin.File, "up", "request.xml", "--user", u.Name))
	return nil
}

// loginOf is the account on nodes of a user who is alone there.
func loginOf(user urn.URN) string { return am.LoginName(user, func(string) bool { return false }) }

// trialSite is a site with its trial authority.
type trialSite struct {
	*trial.Authority
	config *site.Config
	dir    string
	URL    string // of version 3
}

// trial opens the trial authority of the site that the flag names, to write to it: until
// unlock is called, other commands that want to do so wait.
func (f *siteFlag) trial(ctx context.Context, c console) (t *trialSite, unlock func(), err error) {
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

// openTrial opens the trial authority of a site. The error wraps fs.ErrNotExist if it
// has none.
func openTrial(ctx context.Context, c *site.Config) (*trialSite, error) {
	dir := filepath.Dir(c.Origin.File)
	folder := filepath.Join(dir, site.AuthorityDir)
	a, err := trial.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noTrial{fmt.Sprintf("this site has no trial authority in %s; users come from the authorities in %s", folder, c.Trusted)}
	}
	if err != nil {
		return nil, err
	}
	return &trialSite{a, c, dir, publicURL(ctx, c) + "/am/3.0"}, nil
}

// noTrial says that a site has no trial authority.
type noTrial struct{ text string }

func (e noTrial) Error() string { return e.text }
func (e noTrial) Unwrap() error { return fs.ErrNotExist }

// trialUser is a user with its folder.
type trialUser struct {
	trial.User
	Name, Dir string
}

func (u *trialUser) file(suffix string) string { return u.Name + "-" + suffix }
func (u *trialUser) path(suffix string) string { return filepath.Join(u.Dir, u.file(suffix)) }

// ownKeys is the file with the public SSH keys of a user who brought them.
const ownKeys = "id_own.pub"

// user is userWithKeys of one who gives no SSH keys.
func (t *trialSite) user(name string, renew bool, now time.Time) (_ *trialUser, made bool, err error) {
	return t.userWithKeys(name, nil, renew, now)
}

// userWithKeys gives the user of that name with its files written: all of them for a
// new one or with renew, else those that are missing, and those of the site and of the
// SSH keys if they have changed. Given keys take the place of the SSH keys.
func (t *trialSite) userWithKeys(name string, keys []byte, renew bool, now time.Time) (_ *trialUser, made bool, err error) {
	x, err := t.UserWithKeys(name, keys, now)
	if err != nil {
		return nil, false, err
	}
	name = x.URN.Name // as it was first spelled
	u := &trialUser{User: x, Name: name, Dir: folderOfUser(t.dir, name)}
	follow, err := t.aggregateFiles() // these follow their source
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
		if changed { // it named the key that was made here
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

// parseLifetime reads --expires. What is too long for any time is as long as
// can be said.
func parseLifetime(s string) (time.Duration, error) {
	life, err := display.ParseDuration(s)
	switch {
	case errors.Is(err, display.ErrTooLong):
		return math.MaxInt64, nil
	case err != nil:
		return 0, fmt.Errorf("--expires: %w", err)
	case life == 0:
		return 0, fmt.Errorf("--expires %s is no time at all; say how long, such as 2h", s)
	}
	return life, nil
}

// until is when a credential ends that lasts so long from now on, as long as
// the authority does.
func (t *trialSite) until(life time.Duration, now time.Time) (time.Time, error) {
	if longest := t.Expires().Sub(now); life >= longest {
		return time.Time{}, fmt.Errorf("--expires is too long: the trial authority ends on %s, so the longest is %dd",
			t.Expires().Format(time.DateOnly), max(0, longest-time.Minute)/(24*time.Hour))
	}
	return now.Add(life), nil
}

// omniConfig is an omni_config that works without a clearinghouse: credentials
// come from files, and ch is asked for nothing. The files that it names lie in dir; of
// the current folder, "", they have names alone. The section of a user is called user-NAME,
// so that no name is taken for one of omni's own sections.
func (t *trialSite) omniConfig(u *trialUser, dir string) []byte {
	ini := func(name string) string { return strings.ReplaceAll(filepath.Join(dir, name), "%", "%%") }
	manager := t.URN()
	manager.Name = "cm"
	return fmt.Appendf(nil, `# For omni, as user %[1]s of the trial authority of %[2]s.
# Credentials are given as files: --usercredfile and --slicecredfile.

[omni]
default_cf = trial-authority
users = user-%[1]s

[trial-authority]
type = gcf
authority = %[2]s
ch = https://localhost:1
cert = %[3]s
key = %[4]s

[user-%[1]s]
urn = %[5]s
keys = %[6]s

[aggregate_nicknames]
site = %[7]s,%[8]s
`, u.Name, t.URN().Authority, ini(u.file("cert.pem")), ini(u.file("key.pem")), u.URN, ini(u.publicKeys()), manager, strings.ReplaceAll(t.URL, "%", "%%"))
}

// publicKeys is the file with the public SSH keys.
func (u *trialUser) publicKeys() string {
	if len(u.SSHKey) == 0 {
		return ownKeys
	}
	return "id_ed25519.pub"
}

// omni is a command line of omni.py; slice is a file with a slice credential, or "".
func (t *trialSite) omni(u *trialUser, slice string, args ...string) string {
	line := []string{"omni.py", "-c", filepath.Join(u.Dir, "omni_config"), "-a", t.URL, "-V", "3", "--usercredfile", u.path("usercred.xml")}
	if slice != "" {
		line = append(line, "--slicecredfile", slice)
	}
	return display.ShellLine(append(line, args...))
}

// call is the same with our own client.
func (t *trialSite) call(u *trialUser, args ...string) string {
	return display.CommandAt(t.config.Origin.File, append([]string{"call", "--user", u.Name}, args...)...)
}
