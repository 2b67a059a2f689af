package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const nodesLong = `List nodes with their state, used capacity, slices and ends of leases: all nodes of the
inventory, or those that match the argument. Nodes that are missing from the inventory are
listed while they have slivers or are drained. Renamed components are not listed under the
old name.

The states: free; used, with room for more; full; held, without room for other slices,
since the node is exclusive or a slice uses it exclusively; cleaning, until its slivers
are removed; maintenance; drained; missing. A node is drained automatically while its
provider reports an orphan on it, a resource without a sliver: after a restore, for
example.

--orphans lists orphaned resources instead: the provider, its name for the resource, the
node, and whether a sliver of this site had the resource before. To remove one: patchbay
release --orphans RESOURCE. This needs a running server.

--fits REQUEST lists instead, for each node of an RSpec, the components on which it would
fit now, in the order in which the site prefers them, with what it would be granted. For
the other components it counts the reasons. Each node counts alone; the last line says
whether the request fits as a whole. REQUEST may be - for standard input. No policy
applies: for a user, see patchbay check --user.` + listLong

type nodesOptions struct {
	listOptions
	Orphans bool
	Request string // of --fits
}

func (o *nodesOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "nodes")
	o.argument = &o.filter.Component
	o.addPattern(fs, &o.filter.Slice, "slice", "a slice that has slivers on the node")
	o.addPattern(fs, &o.filter.User, "user", "a user with slivers on it")
	o.addPattern(fs, &o.filter.Provider, "provider", "its provider")
	o.addStates(fs, "state", operate.NodeStates)
	fs.BoolVar(&o.Orphans, "orphans", false, "list orphans: resources of providers that belong to no sliver")
	fs.StringVar(&o.Request, "fits", "", "list where the nodes of this REQUEST fit: an RSpec file, or -")
}

func (o *nodesOptions) Validate(args []string) error {
	err := o.listOptions.Validate(args)
	switch {
	case err != nil:
		return err
	case o.Orphans && (o.filter != (operate.Filter{}) || o.Backup != "" || o.Request != ""):
		return fmt.Errorf("--orphans lists all orphans of a served site; leave the other flags and the pattern out")
	case o.Request != "" && o.filter != (operate.Filter{}):
		return fmt.Errorf("--fits considers all nodes of the site; leave the other flags and the pattern out")
	}
	return nil
}

func (o *nodesOptions) Run(ctx context.Context, c command.Console) error {
	if o.Orphans {
		return o.showOrphans(ctx, c)
	}
	if o.Request != "" {
		return o.showFits(ctx, c)
	}
	head := []string{"NODE", "STATE", "TAKEN", "LAST END", "HELD BY"}
	if o.Wide {
		head = append(head, "KIND", "PROVIDER", "USERS")
	}
	head = append(head, "REMARK")
	return show(ctx, &o.listOptions, c, "There is no such node.", head, func(t *listTable, n *operate.Node) {
		var held, users []string
		var last operate.Holder
		for _, h := range n.Holders {
			name := t.name(h.Slice)
			if !h.Begins.IsZero() {
				name += " (begins " + t.when(h.Begins) + ")"
			}
			held, users = append(held, name), append(users, t.list(h.Users))
			if h.Frozen || !last.Frozen && h.Expires.After(last.Expires) {
				last = h
			}
		}
		if most := 3; len(held) > most && !t.Wide {
			held = append(held[:most], fmt.Sprintf("%d more", len(held)-most+n.More))
		} else if n.More > 0 {
			held = append(held, fmt.Sprintf("%d more", n.More))
		}
		cells := []string{t.component(n.Component, n.Name), n.State, n.Taken(o.Wide), t.end(last.Expires, last.Frozen), strings.Join(held, ", ")}
		if o.Wide {
			kind := "shared"
			if n.Exclusive {
				kind = "exclusive"
			}
			cells = append(cells, kind, n.Provider, strings.Join(users, ", "))
		}
		t.Row(append(cells, t.Cut(n.Remark(), 60))...)
	})
}

// showOrphans lists the orphans. It fails if no server runs.
func (o *nodesOptions) showOrphans(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	t := newTable(c.Out, &o.listOptions, config.Now(ctx))
	t.Head("PROVIDER", "RESOURCE", "NODE", "SINCE", "RELEASED HERE", "REMARK")
	list := func(w io.Writer) error { return site.Connect(config).Stream(ctx, "/orphans", w) }
	if o.JSON {
		err = list(c.Out)
	} else {
		err = site.ReadRows(list, func(r *operate.OrphanRow) error {
			t.Row(t.Cut(r.Provider, 40), r.Resource, t.Cut(r.Component, 40), t.when(r.Since), yesOrNo(r.Released), r.Remark())
			return nil
		})
	}
	switch {
	case errors.Is(err, site.ErrNotServed):
		return notServedError()
	case err != nil || o.JSON:
		return err
	}
	return t.Flush("Providers have reported no orphans.")
}
