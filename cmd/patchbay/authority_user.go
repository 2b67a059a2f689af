package main

import (
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

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/credentials/trial"
)

const userLong = `Make a user of the site's private trial authority: a certificate, its key, a
user credential, an SSH key pair and an omni_config, in users/NAME beside the
configuration. A user that exists is left as it is; --renew writes a fresh
credential, with the same certificate and keys.

Any client that reads credentials from files works with them: omni, geni-lib,
patchbay call. jFed logs in only through an authority it knows.`

type userOptions struct {
	site  siteFlag
	Name  string
	Renew bool
}

func (o *userOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Renew, "renew", false, "write a fresh credential for a user that exists")
}

func (o *userOptions) Validate(args []string) (err error) {
	o.Name, err = oneArgument(args, "the user's name")
	return err
}

func (o *userOptions) Run(ctx context.Context, c console) error {
	t, err := o.site.trial(ctx)
	if err != nil {
		return err
	}
	u, made, err := t.user(o.Name, o.Renew, time.Now())
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
	for _, line := range [][2]string{
		{u.file("cert.pem"), "certificate"},
		{u.file("key.pem"), "its key; keep it private"},
		{u.file("usercred.xml"), "user credential"},
		{"id_ed25519", "SSH key for the nodes; id_ed25519.pub is its public half"},
		{"omni_config", "configuration for omni"},
	} {
		fmt.Fprintf(c.out, "  %-24s %s\n", line[0], line[1])
	}
	fmt.Fprintf(c.out, "\nWhat does the site offer?\n  %s\n  %s\n",
		t.omni(u, "", "listresources"), t.call(u, "ListResources"))
	fmt.Fprintf(c.out, "\nThen make a slice:\n  %s\n", display.CommandAt(t.config.Origin.File, "slice", "first", "--owner", u.Name))
	return nil
}

// trialSite is a site with its trial authority.
type trialSite struct {
	*trial.Authority
	config *site.Config
	dir    string
	URL    string // of version 3
}

// trial opens the trial authority of the site that the flag names.
func (f *siteFlag) trial(ctx context.Context) (*trialSite, error) {
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	return openTrial(ctx, c)
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
	url := c.PublicURL
	if url == "" {
		url = site.PublicURLOf(ctx, c.Listen)
	}
	return &trialSite{a, c, dir, strings.TrimSuffix(url, "/") + "/am/3.0"}, nil
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

// user gives the user of that name with its files written: all of them for a
// new one or with renew, else none but those that are missing.
func (t *trialSite) user(name string, renew bool, now time.Time) (_ *trialUser, made bool, err error) {
	x, err := t.User(name, now)
	if err != nil {
		return nil, false, err
	}
	name = x.URN.Name // as it was first spelled
	u := &trialUser{User: x, Name: name, Dir: filepath.Join(t.dir, site.UsersDir, strings.ToLower(name))}
	var files []siteFile
	for _, f := range []siteFile{
		{u.file("cert.pem"), x.Certificate, 0o644},
		{u.file("key.pem"), x.Key, 0o600},
		{u.file("usercred.xml"), x.Credential, 0o600},
		{"id_ed25519", x.SSHKey, 0o600},
		{"id_ed25519.pub", x.SSHPublicKey, 0o644},
		{"omni_config", t.omniConfig(u), 0o644},
	} {
		_, err := os.Lstat(filepath.Join(u.Dir, f.name))
		if renew || errors.Is(err, fs.ErrNotExist) {
			files = append(files, f)
		} else if err != nil {
			return nil, false, err
		}
	}
	return u, len(files) > 0, writeFiles(u.Dir, files)
}

// siteFile is a file to be written into a folder.
type siteFile struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// writeFiles writes files below dir, replacing each as a whole.
func writeFiles(dir string, files []siteFile) error {
	for _, f := range files {
		if err := site.ReplaceFile(filepath.Join(dir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
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
// come from files, and ch is asked for nothing. The sections' names hold a
// hyphen, which a user's name cannot.
func (t *trialSite) omniConfig(u *trialUser) []byte {
	ini := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
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
`, u.Name, t.URN().Authority, ini(u.path("cert.pem")), ini(u.path("key.pem")), u.URN, ini(filepath.Join(u.Dir, "id_ed25519.pub")), manager, ini(t.URL))
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
