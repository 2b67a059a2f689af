package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// completion is a command line to complete.
type completion struct {
	ctx     context.Context
	cmd     *cobra.Command
	options options
	site    siteFlag
	args    []string // before the word
}

// completer returns the possible words at a place of a command line, or false if any
// file name is possible.
type completer func(*completion) (words []string, ok bool)

// argumentWords are the completers of arguments, by command. Other commands take files.
var argumentWords = map[string]completer{
	"call":   (*completion).callArguments,
	"slices": (*completion).siteSlices, "slivers": (*completion).siteSlices, "tasks": (*completion).siteSlices, "journal": (*completion).siteSlices,
	"manifest": (*completion).siteSlices, "release": (*completion).siteSlices, "renew": (*completion).siteSlices, "thaw": (*completion).siteSlices,
	"nodes": (*completion).components, "drain": (*completion).components, "undrain": (*completion).components, "maintenance": (*completion).components,
	"delegate": (*completion).ownedSlices, "down": (*completion).ownedSlices, "extend": (*completion).ownedSlices, "status": someOf(),
	"guide": someOf(guideTopics()...), "serve": someOf(), "demo": someOf(), "reload": someOf(), "clock": someOf(), "move": someOf(), "lockdown": someOf(), "usage": someOf(), "user": someOf(), "slice": someOf(), "tool": someOf(), "version": someOf(),
}

// flagWords are the completers of flag values, by flag, or by command and flag. Other
// flags take files.
var flagWords = map[string]completer{
	"user": (*completion).users, "owner": (*completion).users, "delegate from": (*completion).users, "delegate to": (*completion).users, "tool for": (*completion).users,
	"slice": (*completion).siteSlices, "call slice": (*completion).ownedSlices, "up slice": (*completion).ownedSlices, "component": (*completion).components, "provider": (*completion).providers,
	"init provider": someOf(create.Local, create.Simulated), "demo provider": someOf(create.Local, create.Simulated),
	"outbound": someOf("yes", "no"), "api-version": someOf("2", "3"),
}

// complete registers the completers of a command with cobra.
func complete(cmd *cobra.Command, o options) {
	with := func(f completer) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			x := &completion{ctx: cmd.Context(), cmd: cmd, options: o, args: args, site: siteFlag{file: site.ConfigName, flags: cmd.Flags()}}
			if f := cmd.Flags().Lookup("config"); f != nil {
				x.site.file = f.Value.String()
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
	for key, f := range words {
		command, name, special := strings.Cut(key, " ")
		if !special {
			name = key
			if words[cmd.Name()+" "+key] != nil {
				continue
			}
		} else if command != cmd.Name() {
			continue
		}
		if cmd.Flags().Lookup(name) != nil {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, with(f)))
		}
	}
}

// someOf returns a completer with fixed words.
func someOf(words ...string) completer {
	return func(*completion) ([]string, bool) { return slices.Clone(words), true }
}

// callArguments completes the method, and after it the action or the file that it takes.
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
		return append(slices.Clone(actionVerbs), "update_users"), true
	}
	return nil, true
}

func (x *completion) users() ([]string, bool) {
	names := x.site.userNames()
	return names, len(names) > 0
}

// ownedSlices returns the slices for which the users of --user, or else all users, have
// credentials.
func (x *completion) ownedSlices() ([]string, bool) {
	var users, names []string
	if o, ok := x.options.(*callOptions); ok {
		users = o.Users
	}
	if len(users) == 0 {
		users = x.site.userNames()
	}
	folders, err := (&targetFlags{site: &x.site}).userPaths(users)
	if err != nil {
		return nil, true
	}
	for _, dir := range folders {
		names = append(names, slicesIn(dir)...)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// siteSlices returns the slices that have slivers at the site.
func (x *completion) siteSlices() (names []string, ok bool) {
	config, err := x.site.read()
	if err != nil {
		return nil, true
	}
	_ = site.Rows(x.ctx, site.AdminClient{Config: config}, "slices", operate.Filter{}, func(s *operate.Slice) error {
		names = append(names, s.URN.Name)
		return nil
	})
	return names, true
}

// components returns the components of the inventory.
func (x *completion) components() (names []string, ok bool) {
	config, err := x.site.read()
	if err != nil {
		return nil, true
	}
	inv, err := inventory.Load(config.Inventory, config.Authority)
	if err != nil {
		return nil, true
	}
	for _, c := range inv.Components {
		names = append(names, c.Name)
	}
	return names, true
}

// providers returns the providers of the site.
func (x *completion) providers() (names []string, ok bool) {
	config, err := x.site.read()
	if err != nil {
		return nil, true
	}
	return namesOf(filepath.Join(config.Providers, "*"+provider.Suffix), provider.Suffix), true
}
