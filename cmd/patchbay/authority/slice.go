package authority

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const sliceLong = `Create a slice of the site's trial authority, and its owner's credential in
users/OWNER/slices/NAME-cred.xml beside the configuration. For a slice that exists, it
writes a fresh credential, which renews the slice. A slice of another user is refused:
use patchbay delegate, or --another-owner to add a second owner.`

type sliceOptions struct {
	site    command.SiteFlag
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
	if o.Name, err = command.OneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.Owner == "" {
		return fmt.Errorf("--owner USER is missing; create a user with: %s", o.site.Hint("user", "NAME"))
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

func (o *sliceOptions) Run(ctx context.Context, c command.Console) error {
	t, unlock, err := o.site.LockTrial(ctx, c.Err)
	if err != nil {
		return err
	}
	defer unlock()
	now := time.Now()
	expires, err := t.ExpiryOf(o.life, now)
	if err != nil {
		return err
	}
	owner, err := t.ExistingUser(o.Owner)
	if err != nil {
		return err
	}
	if has := t.OtherOwner(o.Name, filepath.Base(owner.Dir)); has != "" && !o.Another {
		return fmt.Errorf("%s owns the slice %s; delegate it with: %s; or make %s a second owner with --another-owner",
			has, o.Name, o.site.Hint("delegate", o.Name, "--from", has, "--to", o.Owner), o.Owner)
	}
	s, u, file, err := t.WriteSlice(o.Name, o.Owner, expires, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Slice %s\nof %s until %s; the credential is\n  %s\n", s.URN, s.Owner, s.Expires.Format(time.RFC3339), file)
	request, hint := filepath.Join(t.Dir, site.RequestName), ""
	if _, err := os.Stat(request); err != nil {
		request, hint = site.RequestName, " (write your request into it first)"
	}
	fmt.Fprintf(c.Out, sliceNext, callLine(t, u, "--slice", s.URN.Name), display.ShellWord(request), hint,
		omniLine(t, u, file), s.URN.Name)
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
