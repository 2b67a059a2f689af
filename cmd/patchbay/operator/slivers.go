package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const sliversLong = `List slivers, of all slices or of those that match the argument, with component, state,
end of lease, later start, user and error. A sliver that is being removed is listed until its provider
has confirmed the removal.

The first column can be given to release and renew, unless it has special characters; the
URN (--urns) always works.` + listLong

type sliversOptions struct{ listOptions }

func (o *sliversOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "slivers")
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.Slice, "slice", "its slice, like the argument")
	o.addPattern(fs, &o.filter.Sliver, "sliver", "its client_id or URN")
	o.addPattern(fs, &o.filter.User, "user", "the user who reserved it, or the tool that spoke for them")
	o.addPattern(fs, &o.filter.Component, "component", "the component it is on")
	o.addPattern(fs, &o.filter.Provider, "provider", "its provider")
	o.addStates(fs, "state", operate.SliverStates)
	o.addEndsBefore(fs)
	o.addSpan(fs, "slivers created")
	fs.BoolVar(&o.filter.Shutdown, "shutdown", false, "only those of slices that were shut down")
}

func (o *sliversOptions) Run(ctx context.Context, c command.Console) error {
	head := []string{"SLIVER", "ON", "STATE", "END", "USER"}
	if o.Wide {
		head = append(head, "SPEAKER", "TYPE", "PROVIDER", "CREATED", "TASK", "LOGINS", "URN")
	}
	head = append(head, "ERROR")
	return show(ctx, &o.listOptions, c, "There is no such sliver.", head, func(t *listTable, s *operate.Sliver) {
		state := s.State
		if s.Frozen {
			state = "frozen, " + state
		}
		end := t.end(s.Expires, s.Frozen)
		if s.Waits {
			end = "begins " + t.when(s.Begins) + ", ends " + t.when(s.Ends)
		}
		cells := []string{t.sliver(s.URN, s.Slice, s.ClientID), t.component(s.Component, s.ComponentName), state, end, t.name(s.Creator)}
		if o.Wide {
			task := string(s.Task)
			if s.Attempt > 0 {
				task += fmt.Sprintf(", failed %d times", s.Attempt)
			}
			cells = append(cells, t.name(s.Speaker), s.SliverType, s.Provider, t.when(s.Created), task, strings.Join(s.Logins, " "), s.URN.String())
		}
		t.Row(append(cells, t.Cut(s.Error, 60))...)
	})
}
