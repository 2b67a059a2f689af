package experimenter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/client/ownsite"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
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
	if o.All && (o.site.IsGiven() || o.URL != "" || o.User != "") {
		return errors.New("--all removes your own site; for another site, give down without --all")
	}
	o.slices = args
	return nil
}

func (o *downOptions) Run(ctx context.Context, c command.Console) error {
	if o.All {
		return o.removeOwn(ctx, c)
	}
	s, err := o.openLocked(ctx, c, false)
	if errors.Is(err, session.ErrNoExperiment) {
		fmt.Fprintln(c.Err, "You have no experiment.")
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	names := o.slices
	if len(names) == 0 {
		names = s.toDelete(ctx)
	}
	if len(names) == 0 {
		fmt.Fprintln(c.Err, "You have no nodes.")
	}
	if len(names) > 0 && !o.Yes && !command.Confirmed(os.Stdin, c.Err, deleteQuestion(names)) {
		return errors.New("nothing was changed")
	}
	var failed error
	for _, name := range names {
		if err := s.down(ctx, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("slice %s: %w", name, err))
		}
	}
	if failed == nil && s.Own != nil {
		fmt.Fprintf(c.Err, "Your own site still runs; remove it with: %s\n", s.Own.DownAll())
	}
	return s.Explain(failed)
}

// toDelete returns the experiments, and the user's other slices that may have nodes. An experiment
// without nodes is deleted from the list that status shows.
func (s *opened) toDelete(ctx context.Context) []string {
	own := slices.DeleteFunc(s.OtherSlices(), s.SharedWithUser)
	return append(s.Experiments(), s.WithNodes(ctx, own)...)
}

func deleteQuestion(names []string) string {
	slices := "slice"
	if len(names) > 1 {
		slices = "slices"
	}
	return display.Line(fmt.Sprintf("Delete all nodes of the %s %s, with everything on them?", slices, strings.Join(names, ", "))) + " [y/N] "
}

// down deletes all nodes of a slice. Then it also deletes the slice's request and manifest in the
// user's folder.
func (s *opened) down(ctx context.Context, name string) error {
	if known := userfolder.Slices(s.Dir); !slices.Contains(known, name) {
		return fmt.Errorf("there is no slice of that name; %ssee: %s", userfolder.SuggestNames(name, known), s.Hint("status"))
	}
	x, err := s.OpenSlice(ctx, name, 0, false)
	if err != nil {
		return err
	}
	p := newProgress(s.Err)
	x.Progress = p.show
	if err := x.Delete(ctx, []string{x.Slice}); err != nil {
		p.stop()
		return err
	}
	p.finish()
	if err := x.Forget(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Slice %s: all nodes are deleted.\n", name)
	return err
}

// removeOwn asks, and removes the user's own site with all its nodes.
func (o *downOptions) removeOwn(ctx context.Context, c command.Console) error {
	own, err := ownsite.Find()
	if err != nil {
		return err
	}
	if !userfolder.IsUserFolder(own.Home) { // root's site may no longer exist
		if own, err = own.Choose(ctx, c.Err, false); err != nil {
			return err
		}
	}
	switch {
	case own.Home == "" && own.UserFolder() != "":
		return fmt.Errorf("the nodes of your own site are containers of this host, which need root; use: %s", own.DownAll())
	case !userfolder.FileExists(own.Dir) && !userfolder.IsUserFolder(own.Home):
		fmt.Fprintf(c.Err, "You have no site of your own: there is no folder %s.\n", own.Dir)
		return nil
	}
	if err := requireYes(c, o.Yes, fmt.Sprintf("Remove your own site in %s with all its nodes?", display.Line(own.Dir))); err != nil {
		return err
	}
	if err := own.Remove(ctx, c.Err); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "Your own site was removed: its server, its nodes and the folder %s.\n", own.Dir)
	return err
}
