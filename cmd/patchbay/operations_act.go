package main

import (
	"context"
	"errors"
	"fmt"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/operate"
	"patchbay/am/site"
)

// recordAct records an operator's change in the journal and the audit. A site that was
// never served has only an audit. A failure is only a warning, since the change was already
// made.
func recordAct(ctx context.Context, c console, config *site.Config, what, text string) {
	n := operate.Note{Event: what, Text: text, Operator: audit.Operator()}
	_, err := site.Connect(config).Order(context.WithoutCancel(ctx), "/note", n, new(operate.Result))
	if err == nil {
		return
	}
	act := audit.Act{What: what, Text: text, Operator: n.Operator, At: config.Now(ctx)} // every line of the audit has the site's time
	if failed := audit.Note(config.Audit, act); failed != nil {
		fmt.Fprintf(c.err, "patchbay: the change was made, but it cannot be recorded in the journal or the audit: %v\n", errors.Join(err, failed))
	} else if !errors.Is(err, site.ErrNeverServed) {
		fmt.Fprintf(c.err, "patchbay: the change was made and is in the audit, but it cannot be recorded in the journal: %v\n", err)
	}
}

func notServedError() error {
	return errors.New("this needs a running server: start it with patchbay serve, and try again")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func remarkOn(r *site.OrphanRow) string {
	switch {
	case !r.RemovalRequested.IsZero():
		return "removal requested at " + display.Time(r.RemovalRequested)
	case r.Holds:
		return "its node takes no new slivers"
	}
	return ""
}
