package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/operate"
)

const sliversLong = `List the slivers, of all slices or of those that the argument means: where each is,
its state, the end of its lease, who reserved it, and what is wrong with it. What
is being removed is listed until its provider has confirmed that nothing is left.

The first column names a sliver as release and renew take it, if it has no odd signs
in it; the URN (--urns) always does.` + listLong

type sliversOptions struct{ listOptions }

func (o *sliversOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "slivers")
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.Slice, "slice", "its slice, as the argument")
	o.addPattern(fs, &o.filter.Sliver, "sliver", "its client_id, or of its own URN")
	o.addPattern(fs, &o.filter.User, "user", "the user who reserved it, or who spoke for that user")
	o.addPattern(fs, &o.filter.Component, "component", "the component it is on")
	o.addPattern(fs, &o.filter.Provider, "provider", "the provider that makes it")
	o.addStates(fs, "state", operate.SliverStates)
	o.addEndsBefore(fs)
	o.addSpan(fs)
	fs.BoolVar(&o.filter.Shutdown, "shutdown", false, "only those of slices that were shut down")
}

func (o *sliversOptions) Run(ctx context.Context, c console) error {
	head := []string{"SLIVER", "ON", "STATE", "END", "USER"}
	if o.Wide {
		head = append(head, "SPEAKER", "TYPE", "PROVIDER", "CREATED", "TASK", "LOGINS", "URN")
	}
	head = append(head, "ERROR")
	return show(ctx, &o.listOptions, c, "There is no such sliver.", head, func(t *table, s *operate.Sliver) {
		state := s.State
		if s.Frozen {
			state = "frozen, " + state
		}
		cells := []string{t.sliver(s.URN, s.Slice, s.ClientID), t.component(s.Component, s.ComponentName), state, t.end(s.Expires, s.Frozen), t.name(s.Creator)}
		if o.Wide {
			task := string(s.Task)
			if s.Attempt > 0 {
				task += fmt.Sprintf(", failed %d times", s.Attempt)
			}
			cells = append(cells, t.name(s.Speaker), s.SliverType, s.Provider, t.when(s.Created), task, strings.Join(s.Logins, " "), s.URN.String())
		}
		t.row(append(cells, t.cut(s.Error, 60))...)
	})
}
