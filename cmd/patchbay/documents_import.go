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

const importLong = `Make an inventory of AD, the advertisement of an aggregate that is there already, as
ListResources answers it: patchbay call --url URL -o AD ListResources. All
component_ids are kept, so requests that users have saved still work. RSpecs of GENI
version 3 are read, and of ProtoGENI versions 2, 0.2 and 0.1.

An advertisement does not tell all that an inventory says. The head of the file says
what to look over, and what was left out; patchbay check looks for mistakes then.

The inventory is printed, or written to the file of --out, which must not be there
yet. The site is best of the same authority as the component_ids:
patchbay init --authority NAME.`

type importOptions struct {
	Authority, Provider, Out string
	Force                    bool
	File                     string
}

func (o *importOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Authority, "authority", "", "whose nodes to take, where the advertisement is of several managers")
	fs.StringVar(&o.Provider, "provider", "", "the provider of all components (default simulated)")
	fs.StringVarP(&o.Out, "out", "o", "", "the file to write, instead of printing")
	fs.BoolVar(&o.Force, "force", false, "write over the file of --out")
}

func (o *importOptions) Validate(args []string) (err error) {
	if o.Force && o.Out == "" {
		return errors.New("--force is about the file of --out, which is not given")
	}
	o.File, err = oneArgument(args, "the file with the advertisement")
	return err
}

// maxAdvertisement is more than any advertisement that is read, in bytes.
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
	fmt.Fprintf(c.out, "%s holds %s, %s and %s of %s.\n", o.Out, display.Count(s.Components, "component"), display.Count(s.Interfaces, "interface"), display.Count(s.Links, "link"), s.Authority)
	if len(s.Remarks) == 0 {
		fmt.Fprintln(c.out, "Look it over, the provider first.")
		return nil
	}
	fmt.Fprintf(c.out, "Look it over, the provider first; its head says what else:\n  %s\n", strings.Join(s.Remarks, "\n  "))
	return nil
}

func (o *importOptions) write(text []byte) error {
	flags := os.O_EXCL
	if o.Force {
		flags = os.O_TRUNC
	}
	f, err := openOutput(o.Out, flags)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; name another file, or say --force to write over it", o.Out)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
