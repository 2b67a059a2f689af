package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const slicesLong = `List slices with their slivers by state, the first end of a lease, and the users who
reserved them. Slices that were shut down stay in the list until they are thawed.` + listLong

type slicesOptions struct{ listOptions }

func (o *slicesOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "slices")
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.User, "user", "a user with slivers in it")
	o.addPattern(fs, &o.filter.Component, "component", "a component that has slivers of the slice")
	o.addStates(fs, "state", operate.SliverStates)
	o.addEndsBefore(fs)
	o.addSpan(fs, "slices created")
	fs.BoolVar(&o.filter.Shutdown, "shutdown", false, "only those that were shut down")
}

func (o *slicesOptions) Run(ctx context.Context, c command.Console) error {
	head := []string{"SLICE", "SLIVERS", "STATES", "FIRST END", "USERS"}
	if o.Wide {
		head = append(head, "LAST END", "CREATED", "SHUT DOWN")
	}
	return show(ctx, &o.listOptions, c, "There is no such slice.", head, func(t *listTable, s *operate.Slice) {
		state := command.FormatStates(s.States)
		if !s.Shutdown.IsZero() {
			state = strings.TrimSuffix("shut down, "+state, ", ")
		}
		if s.Waiting > 0 {
			state += fmt.Sprintf("; %d to begin, the first %s", s.Waiting, t.when(s.Begins))
		}
		cells := []string{t.name(s.URN), fmt.Sprint(s.Slivers), state, t.end(s.Expires, !s.Shutdown.IsZero()), t.list(s.Users)}
		if o.Wide {
			down := ""
			if !s.Shutdown.IsZero() {
				down = fmt.Sprintf("%s by %s", display.Time(s.Shutdown), s.WhoShutDown())
			}
			cells = append(cells, t.end(s.Last, !s.Shutdown.IsZero()), t.when(s.Created), down)
		}
		t.Row(cells...)
	})
}
