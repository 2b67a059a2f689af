package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client/conformance"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/site/operate"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

type completion struct {
	ctx  context.Context
	cmd  *cobra.Command
	site session.ChosenSite
	args []string // the arguments before the word
}

// completer returns the possible words. If ok is false, the shell completes file names.
type completer func(*completion) (words []string, ok bool)

var flagFiles = []string{"against", "backup", "bundle", "ca", "config", "content", "credential", "dir", "fits", "junit", "keep", "list", "out", "output", "passphrase-file", "request", "ssh-key", "svg", "with"}

// flagWords is keyed by flag, or by command and flag. The shell completes file names for
// flagFiles, and nothing for other flags.
var flagWords = map[string]completer{
	"user": (*completion).users, "owner": (*completion).users, "lead": (*completion).users, "delegate from": (*completion).users, "delegate to": (*completion).users, "tool for": (*completion).users,
	"call login": (*completion).users,
	"slice":      (*completion).siteSlices, "up slice": (*completion).ownedSlices, "check slice": (*completion).ownedSlices, "user slice": someOf(), "login slice": someOf(),
	"component": (*completion).components, "check life": (*completion).components, "check sliver-type": (*completion).sliverTypes, "check image": (*completion).images,
	"provider": (*completion).providers, "journal event": someOf(journalEvents()...),
	"init provider": someOf(create.Local, create.Simulated), "demo provider": someOf(create.Local, create.Simulated),
	"outbound": someOf("yes", "no"), "api-version": someOf("2", "3"), "group": someOf(conformance.Groups...), "probe slice": (*completion).ownedSlices,
}

// complete registers what the shell completes for the command: its arguments and the values of
// its flags. Options may have the method flagWords, for flags of their own.
func complete(cmd *cobra.Command, s command) {
	with := func(f completer) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			x := &completion{ctx: cmd.Context(), cmd: cmd, args: args, site: session.ChosenSite{File: site.ConfigName}}
			if f := cmd.Flags().Lookup("config"); f != nil {
				x.site = session.ChosenSite{File: f.Value.String(), IsFlag: f.Changed}
			}
			words, ok := f(x)
			if !ok {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) }), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if s.Arguments != nil {
		cmd.ValidArgsFunction = with(s.Arguments)
	}
	words := maps.Clone(flagWords)
	if own, ok := s.Options.(interface{ flagWords() map[string]completer }); ok {
		maps.Copy(words, own.flagWords())
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := words[cmd.Name()+" "+f.Name]
		if values == nil {
			values = words[f.Name]
		}
		switch {
		case f.NoOptDefVal != "" || values == nil && slices.Contains(flagFiles, f.Name):
			return
		case values == nil:
			values = someOf()
		}
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name, with(values)))
	})
}

func journalEvents() []string {
	events := append([]string{operate.EventThaw}, operate.NoteEvents...)
	for _, e := range []am.Event{am.EventAllocate, am.EventProvision, am.EventRenew, am.EventDelete, am.EventExpire, am.EventShutdown, am.EventDone, am.EventGaveUp, am.EventLost} {
		events = append(events, string(e))
	}
	slices.Sort(events)
	return events
}

func someOf(words ...string) completer {
	return func(*completion) ([]string, bool) { return slices.Clone(words), true }
}

func (x *completion) users() ([]string, bool) {
	names := x.site.UserNames()
	return names, len(names) > 0
}

func (x *completion) ownedSlices() ([]string, bool) { return x.slicesOf(nil) }

// slicesOf returns the slices for which the users have credentials; all users if none is given.
func (x *completion) slicesOf(users []string) (names []string, ok bool) {
	if len(users) == 0 {
		users = x.site.UserNames()
	}
	folders, err := (&session.Selection{Site: &x.site}).UserPaths(users)
	if err != nil {
		return nil, true
	}
	for _, dir := range folders {
		names = append(names, userfolder.Slices(dir)...)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// siteSlices returns the slices that have slivers at the site.
func (x *completion) siteSlices() (names []string, ok bool) {
	config, err := x.site.Read()
	if err != nil {
		return nil, true
	}
	_ = site.Rows(x.ctx, site.Connect(config), "slices", operate.Filter{}, func(s *operate.Slice) error {
		names = append(names, s.URN.Name)
		return nil
	})
	return names, true
}

func (x *completion) components() (names []string, ok bool) {
	for _, c := range x.inventory().Components {
		names = append(names, c.Name)
	}
	return names, true
}

func (x *completion) sliverTypes() (names []string, ok bool) {
	for _, t := range x.inventory().SliverTypes {
		names = append(names, t.Name)
	}
	return names, true
}

func (x *completion) images() (names []string, ok bool) {
	for _, i := range x.inventory().Images {
		names = append(names, i.Name)
	}
	return names, true
}

// inventory returns an empty inventory if the site's inventory cannot be read.
func (x *completion) inventory() *inventory.Inventory {
	config, err := x.site.Read()
	if err != nil {
		return &inventory.Inventory{}
	}
	inv, err := config.LoadInventory()
	if err != nil {
		return &inventory.Inventory{}
	}
	return inv
}

func (x *completion) providers() (names []string, ok bool) {
	config, err := x.site.Read()
	if err != nil {
		return nil, true
	}
	return userfolder.Names(config.Providers, "*"+provider.Suffix, provider.Suffix), true
}
