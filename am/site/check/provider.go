package check

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/providertest"
)

// testProvider runs the test suite for authors of providers. The suite creates a node only if
// k.NodeTest names a component.
func (k *Checker) testProvider(ctx context.Context, file string) {
	log := slog.New(slog.NewTextHandler(k.Err, nil))
	p, err := provider.Open(file, log)
	if err != nil {
		k.Errors(err)
		return
	}
	suite, o := providertest.Check, providertest.Options{Progress: func(step string) { k.print("", "", "%s", step) }}
	if k.NodeTest.Component != "" {
		node, done, err := k.testNode(ctx, p)
		if err != nil {
			k.bad(p.Path, "no node is created: %v", err)
			return
		}
		defer done()
		suite, o.Node, o.Wait = providertest.Life, node, k.NodeTest.Wait
	}
	before := k.wrong
	for _, f := range suite(ctx, p, o) {
		if f.Note {
			k.print("note", p.Path, "%s", f)
		} else {
			k.bad(p.Path, "%s", f)
		}
	}
	switch {
	case ctx.Err() != nil:
		k.bad(p.Path, "interrupted before the end, so there is no result; run it again")
	case k.wrong > before:
		fmt.Fprintln(k.Out, "\nThe words before each finding are a heading in PROVIDER.md.")
		if k.NodeTest.Component != "" {
			fmt.Fprintln(k.Out, "A node is created only if all other checks pass.")
		}
	case k.NodeTest.Component != "":
		k.good(p.Path, "provider %s of type %s; a node was created on %s and removed", p.Name, p.Type, k.NodeTest.Component)
	default:
		k.good(p.Path, "provider %s of type %s, %s; no node was created: --life COMPONENT does that", p.Name, p.Type, display.Count(len(p.Attributes), "attribute"))
	}
}

// testNode returns the node that the test suite creates, by the options in k.NodeTest and the
// inventory of the site, if there is one. The site cannot allocate the node's component until
// release is called. testNode fails if no node can be created, for example because the component is
// exclusive and in use.
func (k *Checker) testNode(ctx context.Context, p *provider.Provider) (node provider.Resource, release func(), err error) {
	release = func() {}
	node = provider.Resource{provider.AttrComponent: k.NodeTest.Component}
	isExclusive := true // unless the inventory says otherwise
	config, err := k.siteOf(p)
	if err != nil {
		return nil, nil, err
	}
	if config != nil {
		inv, err := config.LoadInventory()
		if err != nil {
			return nil, nil, err
		}
		c, err := componentOf(inv, p, k.NodeTest.Component)
		if err != nil {
			return nil, nil, err
		}
		isExclusive = c.Exclusive
		t := c.SliverTypes[0]
		if name := k.NodeTest.SliverType; name != "" {
			named, ok := inv.SliverType(name)
			if !ok || !c.Offers(named) {
				return nil, nil, fmt.Errorf("%s offers no sliver type %q; leave out --sliver-type for %s", c.Name, name, t.Name)
			}
			t = named
		}
		node[provider.AttrSliverType] = t.Name
		if t.DefaultImage != nil {
			node[provider.AttrImage] = t.DefaultImage.Name
		}
		if release, err = HoldComponent(config, c); err != nil {
			return nil, nil, err
		}
	}
	for attribute, word := range map[string]string{provider.AttrSliverType: k.NodeTest.SliverType, provider.AttrImage: k.NodeTest.Image} {
		if word != "" {
			node[attribute] = word
		}
	}
	if err := requireFree(ctx, p, k.NodeTest.Component, isExclusive); err != nil {
		release()
		return nil, nil, err
	}
	return node, release, nil
}

// siteOf returns the site whose folder contains the provider, or else the site of --config; nil
// if there is neither.
func (k *Checker) siteOf(p *provider.Provider) (*site.Config, error) {
	if k.Config != nil && sameFile(k.Config.Providers, p.Dir) {
		return k.Config, nil
	}
	file := filepath.Join(filepath.Dir(p.Dir), site.ConfigName)
	if _, err := os.Stat(file); err != nil {
		return k.Config, nil
	}
	return site.ReadConfig(file)
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// componentOf fails if the inventory has no such component, or has it at another provider than p.
func componentOf(inv *inventory.Inventory, p *provider.Provider, name string) (*inventory.Component, error) {
	c, ok := inv.ComponentNamed(name)
	if !ok {
		return nil, fmt.Errorf("%w; name one of its components", site.UnknownComponent(inv, name))
	}
	if c.Provider != p.Name {
		return nil, fmt.Errorf("%s belongs to the provider %s; name a component of %s, or write provider: %s at %s in the inventory", name, c.Provider, p.Name, p.Name, name)
	}
	return c, nil
}

// HoldComponent prevents a site from allocating c until release is called. It opens the site's
// store, so that no server can run until then. It fails if a server runs, or if c is exclusive
// and has a sliver.
func HoldComponent(config *site.Config, c *inventory.Component) (release func(), err error) {
	s, err := config.OpenState() // created if the site has no store yet
	if err != nil {
		return nil, fmt.Errorf("its site could allocate %s meanwhile; stop the server first: %w", c.Name, err)
	}
	release = func() { s.Close() } // until then the site cannot be served
	slivers, err := s.Slivers()
	if err == nil {
		i := slices.IndexFunc(slivers, func(x am.Sliver) bool { return x.Component.Equal(c.URN) })
		if i >= 0 && c.Exclusive {
			err = fmt.Errorf("%s is reserved for %s; name a free component", c.Name, slivers[i].URN)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// requireFree fails if the component is exclusive and the provider reports a node on it.
func requireFree(ctx context.Context, p *provider.Provider, component string, isExclusive bool) error {
	all, err := p.Get(ctx, nil)
	if err != nil || !isExclusive {
		return nil // the suite reports errors of get
	}
	for name, r := range all {
		if !provider.Gone(r.Resource) && r.Resource.Text(provider.AttrComponent) == component {
			return fmt.Errorf("%s is in use: the provider reports node %s there; name a free component", component, name)
		}
	}
	return nil
}
