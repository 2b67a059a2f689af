package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/site"
)

const sliceLong = `Create a slice of the site's trial authority, and its owner's credential in
users/OWNER/slices/NAME-cred.xml beside the configuration. For a slice that exists, it
writes a fresh credential, which renews the slice. A slice of another user is refused:
use patchbay delegate, or --another-owner to add a second owner.`

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
	fs.StringVar(&o.Owner, "owner", "", "the owner of the slice")
	fs.BoolVar(&o.Another, "another-owner", false, "add the user to the owners of the slice")
	fs.StringVar(&o.Expires, "expires", "7d", "how long the credential lasts; no sliver lives longer")
}

func (o *sliceOptions) Validate(args []string) (err error) {
	if o.Name, err = oneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.Owner == "" {
		return fmt.Errorf("--owner USER is missing; create a user with: %s", o.site.hint("user", "NAME"))
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

func (o *sliceOptions) Run(ctx context.Context, c console) error {
	t, unlock, err := o.site.lockTrial(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	now := time.Now()
	expires, err := t.expiry(o.life, now)
	if err != nil {
		return err
	}
	owner, err := t.existingUser(o.Owner)
	if err != nil {
		return err
	}
	if has := t.otherOwner(o.Name, filepath.Base(owner.Dir)); has != "" && !o.Another {
		return fmt.Errorf("%s owns the slice %s; delegate it with: %s; or make %s a second owner with --another-owner",
			has, o.Name, o.site.hint("delegate", o.Name, "--from", has, "--to", o.Owner), o.Owner)
	}
	s, u, file, err := t.writeSlice(o.Name, o.Owner, expires, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Slice %s\nof %s until %s; the credential is\n  %s\n", s.URN, s.Owner, s.Expires.Format(time.RFC3339), file)
	request, hint := filepath.Join(t.dir, site.RequestName), ""
	if _, err := os.Stat(request); err != nil {
		request, hint = site.RequestName, " (write your request into it first)"
	}
	fmt.Fprintf(c.out, sliceNext, t.call(u, "--slice", s.URN.Name), display.ShellWord(request), hint,
		t.omni(u, file), s.URN.Name)
	return nil
}

// sliceNext is a text with the next commands. Shell functions keep its lines short.
const sliceNext = `
Reserve, create and delete the nodes of a request%[3]s, with patchbay call:
  pb() { %[1]s "$@"; }
  pb Allocate %[2]s
  pb Provision
  pb start --wait                    # waits until they are ready; shows the logins
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

func (t *trialSite) writeSlice(name, owner string, expires, now time.Time) (authority.Issued, *trialUser, string, error) {
	u, err := t.existingUser(owner)
	if err != nil {
		return authority.Issued{}, nil, "", err
	}
	s, err := t.Slice(name, owner, expires, now)
	if err != nil {
		return s, nil, "", err
	}
	file := u.credentialFile(s.URN.Name)
	return s, u, file, site.ReplaceFile(file, s.Credential, 0o600)
}

// otherOwner returns the name of another user that has a credential for the slice called name.
// It prefers a user whose credential is not delegated. It returns "" if there is no other user,
// or if user has a credential that is not delegated.
func (t *trialSite) otherOwner(name, user string) (receiver string) {
	users := filepath.Join(t.dir, site.UsersDir)
	has := func(user string) (any, own bool) {
		dir := folderOfUser(t.dir, user)
		for _, s := range slicesIn(dir) {
			if strings.EqualFold(s, name) {
				text, err := site.ReadRegular(filepath.Join(dir, slicesDir, s+"-cred.xml"))
				return true, err != nil || !isDelegated(text)
			}
		}
		return false, false
	}
	if _, own := has(user); own {
		return ""
	}
	entries, _ := os.ReadDir(users) // a site without users has no slices
	for _, e := range entries {
		switch any, own := has(e.Name()); {
		case own:
			return e.Name()
		case any && e.Name() != user:
			receiver = e.Name()
		}
	}
	return receiver
}
