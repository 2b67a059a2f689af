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

// noteAct has the journal tell what an operator did, and with it the audit. A site
// that has never been served has no journal, so its audit alone does. What is done is
// done, even if that cannot be written.
func noteAct(ctx context.Context, c console, config *site.Config, what, text string) {
	n := operate.Note{Event: what, Text: text, Operator: audit.Operator()}
	_, _, err := site.Act(context.WithoutCancel(ctx), site.AdminClient{Config: config}, "note", n, (*operate.Desk).Note)
	if err == nil {
		return
	}
	act := audit.Act{What: what, Text: text, Operator: n.Operator, At: config.Now(ctx)} // as all lines
	if failed := audit.Note(config.Audit, act); failed != nil {
		fmt.Fprintf(c.err, "patchbay: it is done, but neither the journal nor the audit tells of it: %v\n", errors.Join(err, failed))
	} else if !errors.Is(err, site.ErrNeverServed) {
		fmt.Fprintf(c.err, "patchbay: it is done, and the audit tells of it, but not the journal: %v\n", err)
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
