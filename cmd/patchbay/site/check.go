package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/site/check"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/provider"
)

const checkLong = `Check a site, or single files, and explain each mistake: file, line, problem, remedy.
Nothing is changed or sent.

Without FILE it checks the whole site of --config: configuration, inventory (with pending
changes and their effect on slivers), policy (each rule as a sentence), trust folder
(each certificate with its authorities and end, each CRL with its age, each line of the
deny list with its effect), providers, server certificates, and hooks (if the server runs,
also failing ones). A FILE may be a configuration, an inventory, a folder or file of
trusted certificates, a provider (NAME.prov), an RSpec, RADL, a blueprint, a file of the
folder library with types of blueprints, or a credential, or - for standard input; the
type is detected from the content.

With --user it explains what a user may do by the policy of the site: which rule applies,
what is available, how much and for how long, and what the user holds now.

Requests are checked against the site of --config, if there is one. RADL, blueprints and
templates in requests are compiled for that site, or without one as by patchbay compile, and
then the resulting request is checked. An error
means: the site would refuse this even if it were empty (drained components and those under
maintenance count as missing). A warning means: the site accepts this, but the schema does
not. Providers with probe: true in their metadata get a dry run, as for Allocate.

A provider is tested with the suite of PROVIDER.md. It only reads and makes dry runs, so
it is safe while the site is served. With --life COMPONENT it creates a node there,
restarts it, adds accounts, switches it off and on, and removes it. That needs a free
component of this provider, without a reservation or a reported node, and a stopped
server.

The exit status is 0 if nothing is wrong; warnings do not count.`

type checkOptions struct {
	site    command.SiteFlag
	source  command.SourceFlags
	life    check.NodeTest
	subject check.Subject
	Files   []string
}

func (o *checkOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	o.source.AddFlags(fs)
	lifeFlags(fs, &o.life)
	fs.StringVar(&o.subject.User, "user", "", "explain what this user may do at the site: a URN, or the name of a user of the trial authority")
	fs.StringVar(&o.subject.Slice, "slice", "", "with --user: in this slice, a URN or a name")
}

func (o *checkOptions) Validate(args []string) error {
	o.Files = args
	switch {
	case o.subject.User == "" && o.subject.Slice != "":
		return errors.New("--slice goes with --user")
	case o.subject.User != "" && len(args) > 0:
		return errors.New("--user explains the policy of the site of --config; it takes no FILE")
	}
	if err := o.source.Validate(); err != nil {
		return err
	}
	return validateLife(&o.life, args)
}

func (o *checkOptions) Run(ctx context.Context, c command.Console) error {
	k := &check.Checker{Out: c.Out, Err: c.Err, NodeTest: o.life}
	if o.subject.User != "" {
		k.Explain(ctx, o.site.Path(), o.subject)
		return verdictOf(k)
	}
	if len(o.Files) == 0 {
		k.Site(ctx, o.site.Path())
		return verdictOf(k)
	}
	var err error
	if k.Config, err = o.site.Optional(); err != nil {
		k.Errors(err)
	}
	k.Parameters = o.source.Values
	for _, f := range o.Files {
		k.File(ctx, f)
	}
	return verdictOf(k)
}

// verdictOf returns exit status 1 after a mistake.
func verdictOf(k *check.Checker) error {
	if k.Verdict() {
		return nil
	}
	return command.ExitError(1)
}

func lifeFlags(fs *pflag.FlagSet, o *check.NodeTest) {
	fs.StringVar(&o.Component, "life", "", "with a provider: create, use and remove a node on this component, which must be free")
	fs.StringVar(&o.SliverType, "sliver-type", "", "with --life: the sliver type, instead of the component's default")
	fs.StringVar(&o.Image, "image", "", "with --life: the disk image, instead of the sliver type's default")
	fs.DurationVar(&o.Wait, "wait", 10*time.Minute, "with --life: the time limit of each step")
}

func validateLife(o *check.NodeTest, files []string) error {
	switch {
	case o.Component == "" && (o.SliverType != "" || o.Image != ""):
		return fmt.Errorf("--sliver-type and --image go with --life COMPONENT")
	case o.Component != "" && (len(files) != 1 || !strings.HasSuffix(files[0], provider.Suffix)):
		return fmt.Errorf("--life goes with one provider, NAME%s", provider.Suffix)
	case o.Wait <= 0:
		return fmt.Errorf("--wait %v must be more than 0", o.Wait)
	}
	return nil
}
