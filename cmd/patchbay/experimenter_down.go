package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
)

const downLong = `Delete all nodes of the named slices, or of all your experiments. The site removes them in the
next seconds. Their files are lost. At a terminal it asks first; --yes skips the question.

--all also removes your own site: it stops the server and removes the folder. Without a
terminal, --all needs --yes.`

type downOptions struct {
	experimenterFlags
	All, Yes bool

	slices []string
}

func (o *downOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.BoolVar(&o.All, "all", false, "also stop your own site and remove it from this host")
	fs.BoolVar(&o.Yes, "yes", false, "do not ask")
}

func (o *downOptions) Validate(args []string) error {
	if o.All && len(args) > 0 {
		return errors.New("--all deletes all slices; name none with it")
	}
	if o.All && (o.site.isGiven() || o.URL != "" || o.User != "") {
		return errors.New("--all removes your own site; for another site, give down without --all")
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
		names = s.toDelete(ctx)
	}
	if len(names) == 0 {
		fmt.Fprintln(c.err, "You have no nodes.")
	}
	if len(names) > 0 && !o.Yes && !confirmed(os.Stdin, c.err, deleteQuestion(names)) {
		return errors.New("nothing was changed")
	}
	var failed error
	for _, name := range names {
		if err := s.down(ctx, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("slice %s: %w", name, err))
		}
	}
	if failed == nil && s.own != nil {
		fmt.Fprintf(c.err, "Your own site still runs; remove it with: %s\n", s.own.downAll())
	}
	return s.explain(failed)
}

// toDelete returns the experiments, and the user's other slices that may have nodes. An experiment
// without nodes is deleted from the list that status shows.
func (s *session) toDelete(ctx context.Context) []string {
	own := slices.DeleteFunc(s.otherSlices(), s.sharedWithUser)
	return append(s.experiments(), s.withNodes(ctx, own)...)
}

// withNodes returns the slices that have nodes, or whose nodes cannot be read: the next call for
// such a slice reports the error.
func (s *session) withNodes(ctx context.Context, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		x, err := s.openSlice(ctx, name, 0, false)
		if err != nil {
			return false
		}
		a, err := x.Describe(ctx)
		return err == nil && len(a.Slivers) == 0
	})
}

func deleteQuestion(names []string) string {
	slices := "slice"
	if len(names) > 1 {
		slices = "slices"
	}
	return display.Line(fmt.Sprintf("Delete all nodes of the %s %s, with everything on them?", slices, strings.Join(names, ", "))) + " [y/N] "
}

// down also deletes the slice's files in the user's folder.
func (s *session) down(ctx context.Context, name string) error {
	if known := slicesIn(s.dir); !slices.Contains(known, name) {
		return fmt.Errorf("there is no slice of that name; %ssee: %s", suggestNames(name, known), s.hint("status"))
	}
	x, err := s.openSlice(ctx, name, 0, false)
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
	_, err = fmt.Fprintf(s.out, "Slice %s: all nodes are deleted.\n", name)
	return err
}

func (o *downOptions) removeOwn(ctx context.Context, c console) error {
	own, err := findOwnSite()
	if err != nil {
		return err
	}
	if !isUserFolder(own.home) { // root's site may no longer exist
		if own, err = own.choose(ctx, c, false); err != nil {
			return err
		}
	}
	switch {
	case own.home == "" && own.userFolder() != "":
		return fmt.Errorf("the nodes of your own site are containers of this host, which need root; use: %s", own.downAll())
	case !exists(own.dir) && !isUserFolder(own.home):
		fmt.Fprintf(c.err, "You have no site of your own: there is no folder %s.\n", own.dir)
		return nil
	}
	if err := agree(c, o.Yes, fmt.Sprintf("Remove your own site in %s with all its nodes?", display.Line(own.dir))); err != nil {
		return err
	}
	if err := own.remove(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "Your own site was removed: its server, its nodes and the folder %s.\n", own.dir)
	return err
}
