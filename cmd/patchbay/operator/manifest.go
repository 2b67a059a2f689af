package operator

import (
	"bytes"
	"context"
	"io"
	"net/url"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const manifestLong = `Print a slice's manifest, even if the slice was shut down. SLICE is its URN or name. It
works with and without a running server.`

type manifestOptions struct {
	site   command.SiteFlag
	Backup string
	Slice  string
}

func (o *manifestOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Backup, "backup", "", "read this backup instead of the site")
}

func (o *manifestOptions) Validate(args []string) (err error) {
	o.Slice, err = command.OneArgument(args, "the slice's URN or name")
	return err
}

func (o *manifestOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	q := url.Values{"slice": {o.Slice}}
	var manifest bytes.Buffer
	if err := site.ConnectBackup(config, o.Backup).Stream(ctx, "/inspect?"+q.Encode(), &manifest); err != nil {
		return err
	}
	_, err = io.WriteString(c.Out, command.ShownOn(c.Out, manifest.String()))
	return err
}
