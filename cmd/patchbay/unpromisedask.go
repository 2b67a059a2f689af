package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/site"
)

// showUnpromised lists what a served site knows of.
func (o *nodesOptions) showUnpromised(ctx context.Context, c console) error {
	config, _, err := o.site.read()
	if err != nil {
		return err
	}
	t := newTable(c.out, &o.listOptions, config.Now(ctx))
	t.head("PROVIDER", "RESOURCE", "NODE", "SINCE", "RELEASED HERE", "REMARK")
	w := &site.LineWriter{Row: func(line []byte) error {
		var r site.UnpromisedRow
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("what nobody was promised cannot be read: %w", err)
		}
		t.row(t.cut(r.Provider, 40), r.Resource, t.cut(r.Component, 40), t.when(r.Since), yesOrNo(r.Released), remarkOn(&r))
		return nil
	}}
	if o.JSON {
		err = site.Stream(ctx, config, "/unpromised", c.out)
	} else {
		err = cmp.Or(site.Stream(ctx, config, "/unpromised", w), w.End())
	}
	switch {
	case errors.Is(err, site.ErrNotServed):
		return notServedUnpromised()
	case err != nil || o.JSON:
		return err
	}
	return t.flush("As far as providers have told, they have nothing that nobody was promised.")
}

func notServedUnpromised() error {
	return errors.New("the site is not served, and only then it asks its providers what they have; serve it, and try again")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func remarkOn(r *site.UnpromisedRow) string {
	switch {
	case !r.Ordered.IsZero():
		return "told to go at " + display.Time(r.Ordered)
	case r.Holds:
		return "nothing new goes to its node"
	}
	return ""
}

// releaseUnpromised has a served site remove what nobody was promised.
func (o *releaseOptions) releaseUnpromised(ctx context.Context, c console, config *site.Config) error {
	var done []site.Dismissed
	err := site.Order(ctx, config, "/unpromised", site.UnpromisedOrder{Resources: o.order.Targets, Text: o.order.Text, Operator: audit.Operator()}, &done)
	if errors.Is(err, site.ErrNotServed) {
		return notServedUnpromised()
	}
	if err != nil {
		return err
	}
	wrong, going := 0, 0
	for _, d := range done {
		what := fmt.Sprintf("%s of provider %s", display.Line(d.Resource), display.Line(d.Provider))
		if d.Component != "" {
			what += " on " + display.Line(d.Component)
		}
		switch {
		case d.Gone:
			fmt.Fprintf(c.out, "Gone: %s.\n", what)
		case d.Wrong != "":
			wrong++
			fmt.Fprintf(c.out, "Not removed: %s: %s\n", what, display.Line(d.Wrong))
		default:
			going++
			fmt.Fprintf(c.out, "Told to go, and still there: %s.\n", what)
		}
	}
	if going > 0 {
		fmt.Fprintf(c.out, "What is left, and takes nothing new until it is gone: %s\n", o.site.hint("nodes", "--unpromised"))
	}
	if wrong > 0 {
		return fmt.Errorf("%s could not be removed; see why above, mend the provider and say it again", display.Count(wrong, "resource"))
	}
	return nil
}
