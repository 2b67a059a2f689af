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
	ctx     context.Context
	cmd     *cobra.Command
	options options
	site    session.ChosenSite
	args    []string // the arguments before the word
}

// completer returns the possible words. If ok is false, the shell completes file names.
type completer func(*completion) (words []string, ok bool)

// argumentWords is keyed by command. For other commands, the shell completes file names.
var argumentWords = map[string]completer{
	"call":   (*completion).callArguments,
	"slices": (*completion).siteSlices, "slivers": (*completion).siteSlices, "tasks": (*completion).siteSlices, "journal": (*completion).siteSlices,
	"manifest": (*completion).siteSlices, "release": (*completion).siteSlices, "renew": (*completion).siteSlices, "thaw": (*completion).siteSlices,
	"nodes": (*completion).components, "drain": (*completion).components, "undrain": (*completion).components, "maintenance": (*completion).components,
	"delegate": (*completion).ownedSlices, "share": (*completion).ownedSlices, "down": (*completion).ownedSlices, "extend": (*completion).ownedSlices, "export": (*completion).ownedSlices, "status": someOf(),
	"guide": someOf(guideTopics()...), "authority": someOf(authorityActions...), "login": someOf(), "probe": someOf(), "serve": someOf(), "demo": someOf(), "reload": someOf(), "move": someOf(), "lockdown": someOf(), "usage": someOf(), "user": someOf(), "slice": someOf(), "tool": someOf(), "version": someOf(),
}

var flagFiles = []string{"against", "backup", "bundle", "ca", "config", "content", "credential", "dir", "fits", "junit", "keep", "list", "out", "output", "passphrase-file", "request", "ssh-key", "svg", "with"}

// flagWords is keyed by flag, or by command and flag. The shell completes file names for
// flagFiles, and nothing for other flags.
var flagWords = map[string]completer{
	"user": (*completion).users, "owner": (*completion).users, "lead": (*completion).users, "delegate from": (*completion).users, "delegate to": (*completion).users, "tool for": (*completion).users,
	"call login": (*completion).users,
	"slice":      (*completion).siteSlices, "call slice": (*completion).ownedSlices, "up slice": (*completion).ownedSlices, "check slice": (*completion).ownedSlices, "user slice": someOf(), "login slice": someOf(),
	"component": (*completion).components, "check life": (*completion).components, "check sliver-type": (*completion).sliverTypes, "check image": (*completion).images,
	"provider": (*completion).providers, "journal event": someOf(journalEvents()...),
	"init provider": someOf(create.Local, create.Simulated), "demo provider": someOf(create.Local, create.Simulated),
	"outbound": someOf("yes", "no"), "api-version": someOf("2", "3"), "format": someOf(exportFormats...), "group": someOf(conformance.Groups...), "probe slice": (*completion).ownedSlices,
}

func complete(cmd *cobra.Command, o options) {
	with := func(f completer) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			x := &completion{ctx: cmd.Context(), cmd: cmd, options: o, args: args, site: session.ChosenSite{File: site.ConfigName}}
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
	if f := argumentWords[cmd.Name()]; f != nil {
		cmd.ValidArgsFunction = with(f)
	}
	words := maps.Clone(flagWords)
	if list, ok := o.(interface{ stateFlag() (string, []string) }); ok {
		name, states := list.stateFlag()
		words[name] = someOf(states...)
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

// callArguments completes the method, then its first argument: actions, or file names for a
// request.
func (x *completion) callArguments() ([]string, bool) {
	api := 3
	if o, ok := x.options.(*callOptions); ok && o.API == 2 {
		api = 2
	}
	if len(x.args) == 0 {
		words := slices.Sorted(maps.Keys(shapes[api]))
		if api == 3 {
			words = append(words, actionVerbs...)
		}
		return words, true
	}
	method, _ := methodOf(api, x.args[0], nil)
	params := shapes[api][method].params
	switch {
	case strings.Contains(params, "r") && len(x.args) == 1:
		return nil, false
	case strings.Contains(params, "a") && method == x.args[0] && len(x.args) == 1:
		return actionVerbs, true
	}
	return nil, true
}

func (x *completion) users() ([]string, bool) {
	names := x.site.UserNames()
	return names, len(names) > 0
}

// ownedSlices returns the slices for which the users of --user have credentials. Without
// --user, it returns the slices of all users.
func (x *completion) ownedSlices() ([]string, bool) {
	var users, names []string
	if o, ok := x.options.(*callOptions); ok {
		users = o.Users
	}
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
