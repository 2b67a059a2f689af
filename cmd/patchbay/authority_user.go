package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	config, dir, err := f.read()
	if err != nil {
		return nil, err
	}
	return openTrial(ctx, config, dir)
}

func openTrial(ctx context.Context, c *site.Config, dir string) (*trialSite, error) {
	folder := filepath.Join(dir, site.AuthorityDir)
	a, err := trial.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this site has no trial authority in %s; users come from the authorities in %s", folder, c.Trusted)
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
