package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
	"patchbay/rspec/compile"
	"patchbay/rspec/draw"
	"patchbay/rspec/view"
)

const drawLong = `Draw a request, a manifest or an advertisement of GENI RSpec version 3, or of
ProtoGENI 2: nodes, links, states and addresses, grouped by aggregate. RADL and
blueprints are compiled first, without a site.

Without --svg it prints text: tables of nodes, links as lines, LANs as trees. With --svg
it writes an SVG file, for browsers and web pages. Similar components of an advertisement
are shown as one group.

FILE may be - for standard input.`

type drawOptions struct {
	File  string
	SVG   string
	Width int
	ASCII bool

	source command.SourceFlags
}

func (o *drawOptions) AddFlags(fs *pflag.FlagSet) {
	o.source.AddFlags(fs)
	fs.StringVar(&o.SVG, "svg", "", "write an SVG file instead of text; - for standard output")
	fs.IntVar(&o.Width, "width", 0, "columns of the text (default: the terminal's, or 80)")
	fs.BoolVar(&o.ASCII, "ascii", false, "use no characters beyond ASCII in the text")
}

func (o *drawOptions) Validate(args []string) (err error) {
	if o.Width < 0 || o.Width > 10_000 {
		return fmt.Errorf("--width must be a number of columns from 40 to 10000, not %d", o.Width)
	}
	if o.File, err = command.OneArgument(args, "the FILE to draw"); err != nil {
		return err
	}
	return o.source.Validate()
}

func (o *drawOptions) Run(_ context.Context, c command.Console) error {
	d, err := o.read(c)
	if err != nil {
		return err
	}
	switch o.SVG {
	case "":
		t := command.TextOptions(c.Out)
		t.Width, t.ASCII = cmp.Or(o.Width, t.Width), o.ASCII
		return draw.Text(c.Out, d, t)
	case "-":
		return draw.SVG(c.Out, d, draw.SVGOptions{})
	}
	f, err := command.OpenOutput(o.SVG, os.O_TRUNC)
	if err != nil {
		return err
	}
	return errors.Join(draw.SVG(f, d, draw.SVGOptions{}), f.Close())
}

func (o *drawOptions) read(c command.Console) (*view.Document, error) {
	in, name := os.Stdin, "standard input"
	if o.File != "-" {
		f, err := site.OpenRegular(o.File)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, command.MissingFile(o.File)
		}
		if err != nil {
			return nil, site.SuggestPipe(err)
		}
		defer f.Close()
		in, name = f, o.File
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(command.DrawLimits.Bytes)+1))
	if err != nil {
		return nil, err
	}
	if text, err = o.source.Request(c, name, text, compile.Options{}); err != nil {
		return nil, err
	}
	d, err := view.Read(text, command.DrawLimits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
