package operator

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const tasksLong = `List pending provider tasks: sliver, beginning, failed attempts, next attempt, and the
provider's error. The argument selects slices.` + listLong

type tasksOptions struct{ listOptions }

var taskGoals = []string{
	string(am.GoalMake), string(am.GoalStart), string(am.GoalStop), string(am.GoalRestart), string(am.GoalUsers), string(am.GoalRemove), string(am.GoalUndo),
}

func (o *tasksOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "tasks")
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.Slice, "slice", "the sliver's slice, like the argument")
	o.addPattern(fs, &o.filter.Sliver, "sliver", "the sliver's client_id, or its URN")
	o.addPattern(fs, &o.filter.User, "user", "the user who reserved the sliver")
	o.addPattern(fs, &o.filter.Component, "component", "the component it is on")
	o.addPattern(fs, &o.filter.Provider, "provider", "the provider")
	o.addStates(fs, "goal", taskGoals)
	o.addSpan(fs, "tasks that began")
}

func (o *tasksOptions) Run(ctx context.Context, c command.Console) error {
	head := []string{"SLIVER", "GOAL", "ON", "FAILED", "NEXT TRY", "SINCE"}
	if o.Wide {
		head = append(head, "PROVIDER", "REQUEST", "URN")
	}
	head = append(head, "ERROR")
	return show(ctx, &o.listOptions, c, "No pending tasks.", head, func(t *listTable, x *operate.Task) {
		next := "now"
		if x.Next.After(t.now) {
			next = command.Distance(x.Next.Sub(t.now))
		}
		cells := []string{
			t.sliver(x.Sliver, x.Slice, x.ClientID), string(x.Goal), x.ComponentName, fmt.Sprint(x.Attempt), next, t.when(x.Since),
		}
		if o.Wide {
			cells = append(cells, x.Provider, x.Request, x.Sliver.String())
		}
		t.Row(append(cells, t.Cut(x.Error, 60))...)
	})
}
