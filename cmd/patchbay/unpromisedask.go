package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"patchbay/am/audit"
)

// showUnpromised lists what a served site knows of.
func (o *nodesOptions) showUnpromised(ctx context.Context, c console) error {
	config, _, err := o.site.read()
	if err != nil {
		return err
	}
	t := newTable(c.out, &o.listOptions, config.now(ctx))
	t.head("PROVIDER", "RESOURCE", "NODE", "SINCE", "RELEASED HERE", "REMARK")
	w := &lineWriter{row: func(line []byte) error {
		var r unpromisedRow
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("what nobody was promised cannot be read: %w", err)
		}
		t.row(t.cut(r.Provider, 40), r.Resource, t.cut(r.Component, 40), t.when(r.Since), yesOrNo(r.Released), r.remark())
		return nil
	}}
	if o.JSON {
		err = streamSite(ctx, config, "/unpromised", c.out)
	} else {
		err = cmp.Or(streamSite(ctx, config, "/unpromised", w), w.end())
	}
	switch {
	case errors.Is(err, errNotServed):
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

func (r *unpromisedRow) remark() string {
	switch {
	case !r.Ordered.IsZero():
		return "told to go at " + moment(r.Ordered)
	case r.Holds:
		return "nothing new goes to its node"
	}
	return ""
}

// releaseUnpromised has a served site remove what nobody was promised.
func (o *releaseOptions) releaseUnpromised(ctx context.Context, c console, config *Config) error {
	var done []dismissed
	err := tellSite(ctx, config, "/unpromised", unpromisedOrder{o.order.Targets, o.order.Text, audit.Operator()}, &done)
	if errors.Is(err, errNotServed) {
		return notServedUnpromised()
	}
	if err != nil {
		return err
	}
	wrong, going := 0, 0
	for _, d := range done {
		what := fmt.Sprintf("%s of provider %s", inLine(d.Resource), inLine(d.Provider))
		if d.Component != "" {
			what += " on " + inLine(d.Component)
		}
		switch {
		case d.Gone:
			fmt.Fprintf(c.out, "Gone: %s.\n", what)
		case d.Wrong != "":
			wrong++
			fmt.Fprintf(c.out, "Not removed: %s: %s\n", what, inLine(d.Wrong))
		default:
			going++
			fmt.Fprintf(c.out, "Told to go, and still there: %s.\n", what)
		}
	}
	if going > 0 {
		fmt.Fprintf(c.out, "What is left, and takes nothing new until it is gone: %s\n", o.site.hint("nodes", "--unpromised"))
	}
	if wrong > 0 {
		return fmt.Errorf("%s could not be removed; see why above, mend the provider and say it again", plural(wrong, "resource"))
	}
	return nil
}
