package operator

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/nameset"
)

// showFits lists where the nodes of a request fit.
func (o *nodesOptions) showFits(ctx context.Context, c command.Console) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	request, err := command.ReadInput(o.Request)
	if err != nil {
		return err
	}
	list := func(w io.Writer) error { return h.Fits(ctx, request, w) }
	if o.JSON {
		return list(c.Out)
	}
	return site.ReadRows(list, func(f *operate.Fits) error {
		t := newTable(c.Out, &o.listOptions, time.Time{})
		t.Dash, t.Narrow = false, true
		t.Head("NODE", "FITS ON", "GRANTED", "SCORE", "OTHERS")
		for i := range f.Nodes {
			addFit(t, &f.Nodes[i])
		}
		if err := t.Flush(""); err != nil {
			return err
		}
		if f.Foreign > 0 {
			fmt.Fprintf(c.Out, "%s of other aggregates: not ours.\n", display.Count(f.Foreign, "node"))
		}
		last := "The request fits as a whole."
		if f.Reason != "" {
			last = "The request does not fit as a whole: " + display.Printable(f.Reason) + "."
		}
		_, err := fmt.Fprintln(c.Out, last)
		return err
	})
}

// addFit adds a row for all components that grant a node the same. The first row has the node's
// name, and why the node does not fit on others.
func addFit(t *listTable, n *operate.NodeFit) {
	if len(n.Fits) == 0 {
		t.Row(t.Cut(n.ClientID, 40), "nothing", "", "", othersOf(n))
	}
	for i, c := range n.Fits {
		name, others, score := "", "", ""
		if i == 0 {
			name, others = t.Cut(n.ClientID, 40), othersOf(n)
		}
		if c.Score > 0 {
			score = fmt.Sprint(c.Score)
		}
		var granted []string
		for _, g := range c.Granted {
			granted = append(granted, g.Feature+" "+g.Value)
		}
		t.Row(name, t.Cut(strings.Join(nameset.Fold(c.Components), ", "), 60), t.Cut(strings.Join(granted, ", "), 60), score, others)
	}
}

// othersOf returns a sentence such as "of 20 raw-pc: cpu.count >= 16 removes 12; 3 held".
func othersOf(n *operate.NodeFit) string {
	if n.Refused != "" {
		return n.Refused
	}
	var removals, obstacles []string
	for _, r := range n.Removals {
		removals = append(removals, fmt.Sprintf("%s removes %d", r.Constraint, r.Removed))
	}
	for _, text := range slices.Sorted(maps.Keys(n.Obstacles)) {
		obstacles = append(obstacles, fmt.Sprint(n.Obstacles[text], " ", text))
	}
	parts := slices.DeleteFunc([]string{strings.Join(removals, ", "), strings.Join(obstacles, ", ")}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("of %d %s: %s", n.Candidates, n.SliverType, strings.Join(parts, "; "))
}
