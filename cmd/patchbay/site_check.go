package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/am/site/check"
	"patchbay/inventory/provider"
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
	life  check.Life
	whom  check.Subject
	Files []string
}

func (o *checkOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	lifeFlags(fs, &o.life)
	fs.StringVar(&o.whom.User, "user", "", "explain what this user may do at the site: a URN, or the name of a user of the trial authority")
	fs.StringVar(&o.whom.Slice, "slice", "", "with --user: in this slice, a URN or a name")
}

func (o *checkOptions) Validate(args []string) error {
	o.Files = args
	switch {
	case o.whom.User == "" && o.whom.Slice != "":
		return errors.New("--slice goes with --user, who is to have something in it")
	case o.whom.User != "" && len(args) > 0:
		return errors.New("--user asks about the site of --config, so it takes no FILE")
	}
	return validateLife(&o.life, args)
}

func (o *checkOptions) Run(ctx context.Context, c console) error {
	k := &check.Checker{Out: c.out, Err: c.err, Life: o.life}
	if o.whom.User != "" {
		k.Explain(ctx, o.site.path(), o.whom)
		return verdictOf(k)
	}
	if len(o.Files) == 0 {
		k.Site(ctx, o.site.path())
		return verdictOf(k)
	}
	k.Config = o.optionalSite(k)
	for _, f := range o.Files {
		k.File(ctx, f)
	}
	return verdictOf(k)
}

// optionalSite is the site by which files are read: the one that was named, or
// the one that happens to be here.
func (o *checkOptions) optionalSite(k *check.Checker) *site.Config {
	if _, err := os.Stat(o.site.path()); err != nil && !o.site.given() {
		return nil
	}
	config, err := site.ReadConfig(o.site.path())
	if err != nil {
		k.Errors(err)
		return nil
	}
	return config
}

// verdictOf ends the command with status 1 if k has found a mistake.
func verdictOf(k *check.Checker) error {
	if k.Verdict() {
		return nil
	}
	return exitError(1)
}

func lifeFlags(fs *pflag.FlagSet, o *check.Life) {
	fs.StringVar(&o.Component, "life", "", "with a provider: make, use and remove a node on this component, which must be free")
	fs.StringVar(&o.SliverType, "sliver-type", "", "with --life: what kind of node, instead of the component's default")
	fs.StringVar(&o.Image, "image", "", "with --life: what it boots, instead of the sliver type's default")
	fs.DurationVar(&o.Wait, "wait", 10*time.Minute, "with --life: how long each step may take")
}

func validateLife(o *check.Life, files []string) error {
	switch {
	case o.Component == "" && (o.SliverType != "" || o.Image != ""):
		return fmt.Errorf("--sliver-type and --image go with --life COMPONENT")
	case o.Component != "" && (len(files) != 1 || !strings.HasSuffix(files[0], provider.Suffix)):
		return fmt.Errorf("--life goes with one provider, NAME%s", provider.Suffix)
	case o.Wait <= 0:
		return fmt.Errorf("--wait %v must be more than nothing", o.Wait)
	}
	return nil
}
