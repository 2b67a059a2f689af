package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory/importad"
)

const importLong = `Create an inventory from AD, the advertisement of an existing aggregate. It keeps the
component_ids of nodes, so saved requests still work. It reads RSpecs of GENI version 3, and of
ProtoGENI versions 2, 0.2 and 0.1.

Get the advertisement with: patchbay call --url URL -o AD ListResources

An advertisement has less information than an inventory. The first lines of the result
say what to review and what was left out. Then find mistakes with "patchbay check".

It prints the inventory, or writes it to --out, a file that must not exist. The authority
of the site must be that of the component_ids: patchbay init --authority NAME.`

type importOptions struct {
	Authority, Provider, Out string
	Force                    bool
	File                     string
}

func (o *importOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Authority, "authority", "", "import the nodes of this authority, if the advertisement has nodes of several")
	fs.StringVar(&o.Provider, "provider", "", "the provider of all components (default simulated)")
	fs.StringVarP(&o.Out, "out", "o", "", "the file to write, instead of printing")
	fs.BoolVar(&o.Force, "force", false, "overwrite the file of --out")
}

func (o *importOptions) Validate(args []string) (err error) {
	if o.Force && o.Out == "" {
		return errors.New("--force needs --out")
	}
	o.File, err = oneArgument(args, "the file with the advertisement")
	return err
}

// maxAdvertisement is in bytes.
const maxAdvertisement = 64 << 20

func (o *importOptions) Run(_ context.Context, c console) error {
	f, err := site.OpenRegular(o.File)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAdvertisement+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s, err := importad.Read(text, importad.Options{Authority: o.Authority, Provider: o.Provider, File: filepath.Base(o.File)})
	if err != nil {
		return fmt.Errorf("%s: %w", o.File, err)
	}
	if o.Out == "" {
		_, err := c.out.Write(s.Text)
		return err
	}
	if err := o.write(s.Text); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s has %s, %s and %s of %s.\n", o.Out, display.Count(s.Components, "component"), display.Count(s.Interfaces, "interface"), display.Count(s.Links, "link"), s.Authority)
	if len(s.Remarks) == 0 {
		fmt.Fprintln(c.out, "Review it, the provider first.")
		return nil
	}
	fmt.Fprintf(c.out, "Review it, the provider first, and these points, which its first lines repeat:\n  %s\n", strings.Join(s.Remarks, "\n  "))
	return nil
}

func (o *importOptions) write(text []byte) error {
	flags := os.O_EXCL
	if o.Force {
		flags = os.O_TRUNC
	}
	f, err := openOutput(o.Out, flags)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; choose another file, or overwrite it with --force", o.Out)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
