package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
)

const downLong = `Give back all nodes of the slices named, or of all your experiments, and wait until
they are gone. Their files are lost.

With --all your own site ends, too: its server stops, and its folder is removed, so that
nothing of it is left on this host.`

type downOptions struct {
	experimenterFlags
	All, Yes bool

	slices []string
}

func (o *downOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.BoolVar(&o.All, "all", false, "end your own site, too, and remove it from this host")
	fs.BoolVar(&o.Yes, "yes", false, "do not ask")
}

func (o *downOptions) Validate(args []string) error {
	if o.All && len(args) > 0 {
		return errors.New("--all is about all slices; name none with it")
	}
	if o.All && (o.site.given() || o.URL != "" || o.User != "") {
		return errors.New("--all is about your own site; without it, down gives back what you have at another one")
	}
	o.slices = args
	return nil
}

func (o *downOptions) Run(ctx context.Context, c console) error {
	if o.All {
		return o.removeOwn(ctx, c)
	}
	s, err := o.openLocked(ctx, c, false)
	if errors.Is(err, errNothingYet) {
		fmt.Fprintln(c.err, "You have no experiment.")
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	names := o.slices
	if len(names) == 0 {
		names = s.experiments()
	}
	if len(names) == 0 {
		fmt.Fprintln(c.err, "You have no experiment.")
	}
	if have := s.experiments(); len(names) > 1 && len(o.slices) == 0 && toTerminal(c.err) {
		if err := agree(c, o.Yes, fmt.Sprintf("Give back all nodes of the slices %s?", strings.Join(have, ", "))); err != nil {
			return err
		}
	}
	var failed error
	for _, name := range names {
		if err := s.down(ctx, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("slice %s: %w", name, err))
		}
	}
	if failed == nil && s.own != nil {
		fmt.Fprintf(c.err, "Your own site runs on; remove it with: %s\n", s.own.downAll())
	}
	return s.explain(failed)
}

// down gives back all nodes of a slice and forgets it.
func (s *session) down(ctx context.Context, name string) error {
	if known := slicesIn(s.dir); !slices.Contains(known, name) {
		return fmt.Errorf("there is none of that name; %ssee: %s", instead(name, known), s.hint("status"))
	}
	x, err := s.openSlice(name, 0, false)
	if err != nil {
		return err
	}
	p := newProgress(s.err)
	x.Progress = p.show
	if err := x.Delete(ctx, []string{x.Slice}); err != nil {
		p.stop()
		return err
	}
	p.finish()
	if err := x.forget(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "Slice %s: all nodes are given back.\n", name)
	return err
}

// removeOwn removes the own site from this host.
func (o *downOptions) removeOwn(ctx context.Context, c console) error {
	own, err := findOwnSite()
	if err != nil {
		return err
	}
	if !isUserFolder(own.home) { // that goes with root's site, also if only it is left
		if own, err = own.choose(ctx, c, false); err != nil {
			return err
		}
	}
	switch {
	case own.home == "" && own.userFolder() != "":
		return fmt.Errorf("the nodes of your own site are containers of this host, which need root; say: %s", own.downAll())
	case !exists(own.dir) && !isUserFolder(own.home):
		fmt.Fprintf(c.err, "You have no site of your own: there is no folder %s.\n", own.dir)
		return nil
	}
	if toTerminal(c.err) {
		if err := agree(c, o.Yes, fmt.Sprintf("Remove your own site in %s with all its nodes?", display.Line(own.dir))); err != nil {
			return err
		}
	}
	if err := own.remove(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "Your own site is gone: its server, its nodes and the folder %s.\n", own.dir)
	return err
}
