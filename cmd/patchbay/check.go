package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory/provider"
	"patchbay/inventory/sheet"
)

const checkLong = `Explain what is wrong with a site, or with single files, and what to do about it:
file, line, what, remedy. Nothing is changed, and nothing is sent anywhere.

Without FILE the whole site of --config is checked: configuration, inventory (and what
is otherwise than in force, with what that means for slivers that are there),
policy (each rule as a sentence), trust folder (each certificate with the authorities it covers and its end, each
CRL with its age, each line of the deny list with what it hits),
providers, server certificates, hooks (and those that fail, if it is served). A FILE may be a configuration, an inventory, a
folder or file of trusted certificates, a provider (NAME.prov), an RSpec or a
credential, or - for the standard input; what it is, is seen from its content.

With --user it explains what a user may do by the policy of the site: which rule
decides, what may be had, how much and for how long, and what is held now.

Requests are read as the site of --config would read them, if there is one: an
error is what the site would refuse now even if nobody else used it, so without what
is drained or under maintenance; a warning is what it tolerates, though the
schema does not. Providers with probe: true in their metadata are asked by a dry
run what they would make of it, as Allocate asks them.

A provider goes through the suite of PROVIDER.md, which only looks and makes dry
runs, so it may be done while the site is served. With --life COMPONENT a node
is made there, restarted, given accounts, switched off and on, and removed. That
needs a component of this provider which nobody has: one that the site has
promised, or on which the provider tells of a node, is refused, and so is any
while the site is served: stop it first.

The exit status is 0 if nothing is wrong; warnings do not count.`

type checkOptions struct {
	site  siteFlag
	life  lifeOptions
	whom  whom
	Files []string
}

func (o *checkOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	o.life.AddFlags(fs)
	fs.StringVar(&o.whom.user, "user", "", "explain what this user may do at the site: a URN, or the name of a user of the trial authority")
	fs.StringVar(&o.whom.slice, "slice", "", "with --user: in this slice, a URN or a name")
}

func (o *checkOptions) Validate(args []string) error {
	o.Files = args
	switch {
	case o.whom.user == "" && o.whom.slice != "":
		return errors.New("--slice goes with --user, who is to have something in it")
	case o.whom.user != "" && len(args) > 0:
		return errors.New("--user asks about the site of --config, so it takes no FILE")
	}
	return o.life.validate(args)
}

func (o *checkOptions) Run(ctx context.Context, c console) error {
	k := &checker{out: c.out, err: c.err, life: o.life}
	if o.whom.user != "" {
		k.explain(ctx, o.site.path(), o.whom)
		return k.verdict()
	}
	if len(o.Files) == 0 {
		k.site(ctx, o.site.path())
		return k.verdict()
	}
	k.config = o.optionalSite(k)
	for _, f := range o.Files {
		k.file(ctx, f)
	}
	return k.verdict()
}

// optionalSite is the site by which files are read: the one that was named, or
// the one that happens to be here.
func (o *checkOptions) optionalSite(k *checker) *site.Config {
	if _, err := os.Stat(o.site.path()); err != nil && !o.site.given() {
		return nil
	}
	config, err := site.ReadConfig(o.site.path())
	if err != nil {
		k.errors(err)
		return nil
	}
	return config
}

// checker says what it finds, and counts.
type checker struct {
	out    io.Writer
	err    io.Writer    // what providers say meanwhile
	config *site.Config // of the site, nil for none
	life   lifeOptions
	wrong  int
	said   []string                      // mistakes
	found  map[string]*provider.Provider // that can be used
}

func (k *checker) good(what, format string, args ...any) { k.line("ok", what, format, args...) }
func (k *checker) note(what, format string, args ...any) { k.line("note", what, format, args...) }
func (k *checker) warn(what, format string, args ...any) { k.line("warning", what, format, args...) }
func (k *checker) bad(what, format string, args ...any) {
	k.wrong++
	k.said = append(k.said, strings.TrimPrefix(what+": ", ": ")+fmt.Sprintf(format, args...))
	k.line("error", what, format, args...)
}

func (k *checker) line(verdict, what, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if what != "" {
		text = what + ": " + text
	}
	fmt.Fprintf(k.out, "%-8s %s\n", verdict, display.Printable(text))
}

// errors has a line for each error that is joined in err.
func (k *checker) errors(err error) {
	if f, ok := errors.AsType[*sheet.Error](err); ok {
		for _, p := range f.Problems {
			k.bad("", "%s", p)
		}
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			k.errors(e)
		}
		return
	}
	k.bad("", "%v", err)
}

// verdict is the last word.
func (k *checker) verdict() error {
	if k.wrong == 0 {
		return nil
	}
	fmt.Fprintf(k.out, "\n%s.\n", display.Count(k.wrong, "mistake"))
	return exitError(1)
}
