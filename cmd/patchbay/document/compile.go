package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"patchbay/cmd/patchbay/command"
	"patchbay/inventory"
	"patchbay/rspec/compile"
)

const compileLong = `Compile RADL or a blueprint to a request RSpec, and print it. Its comments explain each
decision, such as how a node gets an application. The aggregate chooses images and sliver
types.

The language is detected from the content. up, check, draw, call Allocate and call
CreateSliver take such files directly; compile shows what they send.

--against names what the aggregate offers: an inventory.yaml. The default is the site of
--config, PATCHBAY_CONFIG or the current folder. Without a site, images must have all
applications.

--set gives values to parameters of RADL, @input.NAME@. At a terminal, compile asks for
missing ones.

--with names earlier sources of the same slice, in their order. They define what FILE only
refers to, and their nodes and links count as existing: numbers of nodes go on, and new
nodes join existing links. Each may be RADL or a blueprint. The result is for a further
Allocate.

A blueprint may name files beside it, or be a ZIP with heat.yaml and these files. With
--content DIR --content-url URL, files of more than 64 KiB are written into the folder DIR
under their SHA-256. Serve that folder at the URL: the nodes fetch the files from there,
and check them.

Mistakes and warnings are written as FILE:LINE:COLUMN to standard error. After a mistake
the exit status is 1, and nothing is printed. FILE may be - for standard input.`

type compileOptions struct {
	site    command.SiteFlag
	source  command.SourceFlags
	Against string
	With    []string
	Output  string
	File    string

	ContentDir, ContentURL string
}

func (o *compileOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	o.source.AddFlags(fs)
	fs.StringVar(&o.Against, "against", "", "what the aggregate offers: an inventory (default: the site of --config, if there is one)")
	fs.StringArrayVar(&o.With, "with", nil, "an earlier source of the slice; may be given several times")
	fs.StringVar(&o.ContentDir, "content", "", "a folder for the larger files of a blueprint; with --content-url")
	fs.StringVar(&o.ContentURL, "content-url", "", "the http or https URL at which nodes find the folder of --content")
	fs.StringVarP(&o.Output, "output", "o", "", "write the request to this file, instead of printing")
}

func (o *compileOptions) Validate(args []string) (err error) {
	if o.File, err = command.OneArgument(args, "the FILE to compile"); err != nil {
		return err
	}
	if (o.ContentDir == "") != (o.ContentURL == "") {
		return errors.New("--content and --content-url go together")
	}
	return o.source.Validate()
}

func (o *compileOptions) Run(_ context.Context, c command.Console) error {
	text, err := command.ReadInput(o.File)
	if err != nil {
		return err
	}
	if command.IsXML(text) && !compile.IsForeign(text) {
		return fmt.Errorf("%s: this is XML, not RADL; an RSpec needs no compilation", o.File)
	}
	with, err := o.offer()
	if err != nil {
		return err
	}
	with.ContentDir, with.ContentURL = o.ContentDir, o.ContentURL
	sources := map[string][][]byte{} // by language: they define names for those in the same one
	compileNext := func(name string, text []byte) (*compile.Result, error) {
		with.Language = cmp.Or(compile.Language(text), compile.RADL) // the mistakes explain RADL best
		with.Earlier = sources[with.Language]
		flags := o.source
		if with.Language == compile.Blueprint && len(o.With) > 0 {
			flags = command.SourceFlags{} // the parameters are those of the sources in RADL
		}
		r, err := flags.Compile(c, name, text, with)
		if err != nil {
			return nil, err
		}
		sources[with.Language] = append(sources[with.Language], text)
		with.Nodes, with.Links = append(with.Nodes, r.Nodes...), append(with.Links, r.Links...)
		return r, nil
	}
	for _, name := range o.With {
		earlier, err := command.ReadInput(name)
		if err != nil {
			return err
		}
		if _, err := compileNext(name, earlier); err != nil {
			return err
		}
	}
	r, err := compileNext(o.File, text)
	if err != nil {
		return err
	}
	if o.Output != "" {
		return command.WriteDocument(o.Output, string(r.Request))
	}
	_, err = io.WriteString(c.Out, command.ShownOn(c.Out, string(r.Request)))
	return err
}

// offer returns what the aggregate offers, if that is known.
func (o *compileOptions) offer() (known compile.Options, err error) {
	config, err := o.site.Optional()
	if err != nil {
		return known, err
	}
	known, err = command.OfferOf(config)
	if o.Against == "" || err != nil {
		return known, err
	}
	text, err := command.ReadInput(o.Against)
	if err != nil {
		return known, err
	}
	if command.IsXML(text) {
		return known, fmt.Errorf("%s: this is XML; --against takes an inventory, such as inventory.yaml", o.Against)
	}
	authority := "example.org"
	if config != nil {
		authority = config.Authority
	}
	known.Site, err = inventory.Parse(text, o.Against, authority)
	return known, err
}
