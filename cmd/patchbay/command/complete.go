package command

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

// A Completion is a command line whose next word the shell completes.
type Completion struct {
	ctx  context.Context
	site session.ChosenSite
	Args []string // the arguments before the word
}

// A Completer returns the possible words. If ok is false, the shell completes file names.
type Completer func(*Completion) (words []string, ok bool)

var flagFiles = []string{"against", "backup", "bundle", "ca", "config", "content", "credential", "dir", "fits", "junit", "keep", "links", "list", "out", "output", "passphrase-file", "request", "ssh-key", "svg", "with"}

// flagWords is keyed by flag, or by command and flag. The shell completes file names for
// flagFiles, and nothing for other flags.
var flagWords = map[string]Completer{
	"user": (*Completion).users, "owner": (*Completion).users, "lead": (*Completion).users, "delegate from": (*Completion).users, "delegate to": (*Completion).users, "tool for": (*Completion).users,
	"call login": (*Completion).users,
	"slice":      (*Completion).SiteSlices, "up slice": (*Completion).OwnedSlices, "check slice": (*Completion).OwnedSlices, "user slice": SomeOf(), "login slice": SomeOf(),
	"component": (*Completion).Components, "check life": (*Completion).Components, "check sliver-type": (*Completion).sliverTypes, "check image": (*Completion).images,
	"provider": (*Completion).providers, "journal event": SomeOf(journalEvents()...),
	"init provider": SomeOf(create.Local, create.Simulated), "demo provider": SomeOf(create.Local, create.Simulated),
	"outbound": SomeOf("yes", "no"), "api-version": SomeOf("2", "3"), "group": SomeOf(conformance.Groups...), "probe slice": (*Completion).OwnedSlices,
}

// Complete registers what the shell completes for the command: its arguments and the values of
// its flags. Options may have the method FlagWords, for flags of their own.
func Complete(cmd *cobra.Command, s Command) {
	with := func(f Completer) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			x := &Completion{ctx: cmd.Context(), Args: args, site: session.ChosenSite{File: site.ConfigName}}
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
	if own, ok := s.Options.(interface{ FlagWords() map[string]Completer }); ok {
		maps.Copy(words, own.FlagWords())
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
			values = SomeOf()
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

// SomeOf completes one of the words, which may be none.
func SomeOf(words ...string) Completer {
	return func(*Completion) ([]string, bool) { return slices.Clone(words), true }
}

func (x *Completion) users() ([]string, bool) {
	names := x.site.UserNames()
	return names, len(names) > 0
}

// OwnedSlices returns the slices for which users of the site have credentials.
func (x *Completion) OwnedSlices() ([]string, bool) { return x.SlicesOf(nil) }

// SlicesOf returns the slices for which the users have credentials; all users if none is given.
func (x *Completion) SlicesOf(users []string) (names []string, ok bool) {
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

// SiteSlices returns the slices that have slivers at the site.
func (x *Completion) SiteSlices() (names []string, ok bool) {
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

// Components returns the names of the components in the site's inventory.
func (x *Completion) Components() (names []string, ok bool) {
	for _, c := range x.inventory().Components {
		names = append(names, c.Name)
	}
	return names, true
}

func (x *Completion) sliverTypes() (names []string, ok bool) {
	for _, t := range x.inventory().SliverTypes {
		names = append(names, t.Name)
	}
	return names, true
}

func (x *Completion) images() (names []string, ok bool) {
	for _, i := range x.inventory().Images {
		names = append(names, i.Name)
	}
	return names, true
}

// inventory returns an empty inventory if the site's inventory cannot be read.
func (x *Completion) inventory() *inventory.Inventory {
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

func (x *Completion) providers() (names []string, ok bool) {
	config, err := x.site.Read()
	if err != nil {
		return nil, true
	}
	return userfolder.Names(config.Providers, "*"+provider.Suffix, provider.Suffix), true
}
