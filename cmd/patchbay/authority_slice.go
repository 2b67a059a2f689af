package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/credentials/trial"
)

const sliceLong = `Make a slice of the site's private trial authority, and its owner's credential in
users/OWNER/slices/NAME-cred.xml beside the configuration. Asked again for a
slice that exists, it writes a fresh credential: so a slice is renewed. A slice
that another user has is refused: lend it with patchbay delegate, or say
--another-owner to make a second user an owner of it.`

type sliceOptions struct {
	site    siteFlag
	Name    string
	Owner   string
	Expires string
	Another bool
	life    time.Duration
}

func (o *sliceOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Owner, "owner", "", "the user who owns the slice")
	fs.BoolVar(&o.Another, "another-owner", false, "make the user an owner beside those that the slice has")
	fs.StringVar(&o.Expires, "expires", "7d", "how long the credential lasts; no sliver lives longer")
}

func (o *sliceOptions) Validate(args []string) (err error) {
	if o.Name, err = oneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.Owner == "" {
		return fmt.Errorf("--owner USER is missing; make a user with: %s", o.site.hint("user", "NAME"))
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

func (o *sliceOptions) Run(ctx context.Context, c console) error {
	t, unlock, err := o.site.trial(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	now := time.Now()
	expires, err := t.until(o.life, now)
	if err != nil {
		return err
	}
	owner, err := t.existing(o.Owner)
	if err != nil {
		return err
	}
	if has := t.othersWith(o.Name, filepath.Base(owner.Dir)); has != "" && !o.Another {
		return fmt.Errorf("%s has the slice %s; lend it with: %s; or make %s an owner, too, with --another-owner",
			has, o.Name, o.site.hint("delegate", o.Name, "--from", has, "--to", o.Owner), o.Owner)
	}
	s, u, file, err := t.slice(o.Name, o.Owner, expires, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Slice %s\nof %s until %s; the credential is\n  %s\n", s.URN, s.Owner, s.Expires.Format(time.RFC3339), file)
	request, hint := filepath.Join(t.dir, site.RequestName), ""
	if _, err := os.Stat(request); err != nil {
		request, hint = site.RequestName, " (write your request into it first)"
	}
	fmt.Fprintf(c.out, sliceLife, t.call(u, "--slice", s.URN.Name), display.ShellWord(request), hint,
		t.omni(u, file), s.URN.Name)
	return nil
}

// sliceLife shows how to go on, in functions of the shell so that each line is
// short.
const sliceLife = `
The life of what a request asks for%[3]s, with patchbay call:
  pb() { %[1]s "$@"; }
  pb Allocate %[2]s
  pb Provision
  pb start --wait                    # until they are ready; shows how to log in
  pb Delete

or with omni:
  om() { %[4]s "$@"; }
  om allocate %[5]s %[2]s
  om provision %[5]s
  om status %[5]s
  om performoperationalaction %[5]s geni_start
  om describe %[5]s
  om delete %[5]s
`

// slice makes or renews a slice and writes its owner's credential.
func (t *trialSite) slice(name, owner string, expires, now time.Time) (trial.Slice, *trialUser, string, error) {
	u, err := t.existing(owner)
	if err != nil {
		return trial.Slice{}, nil, "", err
	}
	s, err := t.Slice(name, owner, expires, now)
	if err != nil {
		return s, nil, "", err
	}
	file := u.slice(s.URN.Name)
	return s, u, file, site.ReplaceFile(file, s.Credential, 0o600)
}

// othersWith is a user who has a credential of the slice while the owner has
// none but a lent one; empty if there is none such.
func (t *trialSite) othersWith(name, owner string) (lent string) {
	users := filepath.Join(t.dir, site.UsersDir)
	has := func(user string) (any, own bool) {
		dir := folderOfUser(t.dir, user)
		for _, s := range slicesIn(dir) {
			if strings.EqualFold(s, name) {
				text, err := site.ReadRegular(filepath.Join(dir, slicesDir, s+"-cred.xml"))
				return true, err != nil || !isLent(text)
			}
		}
		return false, false
	}
	if _, own := has(owner); own {
		return ""
	}
	entries, _ := os.ReadDir(users) // a site without users has no slices
	for _, e := range entries {
		switch any, own := has(e.Name()); {
		case own:
			return e.Name()
		case any && e.Name() != owner:
			lent = e.Name()
		}
	}
	return lent
}
