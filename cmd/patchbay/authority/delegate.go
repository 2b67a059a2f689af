package authority

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

const delegateLong = `Delegate a slice of one user to another user or tool: the owner signs a credential that
contains their own and names the receiver. The receiver may do everything with the slice
that the owner may, except delegate it again.

--to names a user or a tool of this site's trial authority, and the credential goes into
its folder. Or it names a file with any other certificate; then -o FILE is needed.`

type delegateOptions struct {
	site    command.SiteFlag
	Expires string
	userfolder.Delegation
}

func (o *delegateOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.From, "from", "", "the user with a credential for the slice")
	fs.StringVar(&o.To, "to", "", "the receiver: a user, a tool, or a file with a certificate")
	fs.StringVar(&o.Expires, "expires", "", "how long the new credential lasts (default: as long as the delegated one)")
	fs.StringVarP(&o.Output, "output", "o", "", "write the credential to this file")
}

func (o *delegateOptions) Validate(args []string) (err error) {
	if o.Slice, err = command.OneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.From == "" || o.To == "" {
		return errors.New("--from USER and --to RECEIVER are both needed")
	}
	if o.Expires != "" {
		o.Life, err = parseLifetime(o.Expires)
	}
	return err
}

func (o *delegateOptions) Run(ctx context.Context, c command.Console) error {
	t, unlock, err := o.site.LockTrial(ctx, c.Err)
	if err != nil {
		return err
	}
	defer unlock()
	from, to, file, err := t.Delegate(&o.Delegation)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s may use the slice %s of %s; the credential is\n  %s\n", to.URN, o.Slice, from.URN, file)
	if to.Dir != "" {
		fmt.Fprintf(c.Out, "\nUse it with:\n  %s\n", display.CommandAt(t.Config.Origin.File, "call", "--user", filepath.Base(to.Dir), "--slice", o.Slice, "Status"))
	}
	return nil
}
