package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/store"
)

const restoreLong = `Put a backup in the place of what a site has promised. FILE is looked at as a
whole first, and must be of this site. What the site has promised since, and would
be forgotten, is told; then --yes is needed, and so it is where the present state is
damaged, so that nobody knows. The present state is kept beside the new one, under a
name that ends with the time. One that is not damaged and yet cannot be opened, as
another site's or a later program's, is not replaced.

The site must not be served meanwhile. When it is served again, it looks after
each sliver of the backup. It promises nothing before its providers have told what
they have, or half a minute has gone by. A node with resources that the backup does not
know of takes no new slivers. patchbay nodes --orphans lists these orphans, and patchbay
release --orphans removes them.`

type restoreOptions struct {
	site siteFlag
	file string
	Yes  bool
}

func (o *restoreOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Yes, "yes", false, "restore even if what was promised since is forgotten")
}

func (o *restoreOptions) Validate(args []string) (err error) {
	o.file, err = oneArgument(args, "the backup")
	return err
}

func (o *restoreOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no store %s; name the file of a backup", o.file)
	}
	present, broken, err := presentState(config)
	if err != nil {
		return err
	}
	r, err := store.Restore(config.State, o.file, config.Authority)
	if err != nil {
		return errors.Join(err, closeState(present))
	}
	after, err := o.compare(c, config, r, present, broken)
	if err != nil {
		return errors.Join(err, r.Discard(), closeState(present))
	}
	// It is there before the backup is in force: a mark too many makes the next start
	// wait for a moment, one too few gives away what is in use.
	if err := site.MarkRestored(config); err != nil {
		return errors.Join(err, r.Discard(), closeState(present))
	}
	kept, err := r.Finish(after, am.JournalEntry{
		At: time.Now().UTC(), Event: "restore", Operator: audit.Operator(),
		Text: fmt.Sprintf("from %.200s, of revision %d", o.file, r.Report.Revision),
	}, present)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s, is what the site has promised from now on.\n", backupLine(r.Report))
	if kept != "" {
		fmt.Fprintf(c.out, "What it was before is in %s.\n", kept)
	}
	if err := tellAudit(config); err != nil {
		fmt.Fprintf(c.err, "patchbay: it is done, but the audit does not tell of it yet: %v\n", err)
	}
	return nil
}

// presentState opens what would be replaced, so that nobody serves it. broken is
// the damage for which it cannot be read; both are nil if nothing is there. The audit
// gets the lines that it still lacks.
func presentState(c *site.Config) (s *store.Store, broken, err error) {
	if _, err := os.Lstat(c.State); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	s, err = c.LookAtState()
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, nil, fmt.Errorf("%w Stop it first", err)
	case errors.Is(err, store.ErrBroken):
		return nil, err, nil
	case err != nil:
		return nil, nil, fmt.Errorf("what is there now is not damaged, so it is not replaced: %w; nothing was changed; if it is to be given up, move it away", err)
	}
	log, err := audit.Open(c.Audit, s, audit.Options{})
	if err == nil {
		err = log.Close()
	}
	switch {
	case errors.Is(err, store.ErrBroken):
		return nil, err, s.Close()
	case err != nil:
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, nil, nil
}

func closeState(s *store.Store) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

// compare tells what would be forgotten, and refuses it without --yes. after is the
// last revision that was ever given.
func (o *restoreOptions) compare(c console, config *site.Config, r *store.Restoration, present *store.Store, broken error) (after store.Rev, err error) {
	if after, err = audit.Seen(config.Audit); err != nil {
		return 0, fmt.Errorf("cannot read how far the audit is: %w", err)
	}
	var d difference
	if present != nil {
		d, err = differenceOf(r, present)
		if broken = present.Err(); err != nil && broken == nil {
			return 0, err
		}
	}
	if broken != nil {
		fmt.Fprintf(c.out, "What is there now cannot be read, so nobody knows what was promised since the backup: %v\n", broken)
		if !o.Yes {
			return 0, fmt.Errorf("nothing was changed; add --yes to restore and discard whatever was reserved since")
		}
		return max(after, d.revision), nil
	}
	if present == nil {
		if _, lost := config.HasState(); lost != nil {
			fmt.Fprintln(c.out, "Nothing is there now, so nobody knows what was promised since the backup.")
		}
		return after, nil
	}
	d.print(c.out)
	if d.loses() && !o.Yes {
		return 0, fmt.Errorf("nothing was changed; add --yes to restore and discard these changes")
	}
	return max(after, d.revision), nil
}

// tellAudit has the audit tell of the restore, as it would at the next start.
func tellAudit(c *site.Config) error {
	s, err := c.OpenState()
	if err != nil {
		return err
	}
	log, err := audit.Open(c.Audit, s, audit.Options{})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(s.Close(), log.Close())
}

// maxDifferences is how many names of a kind are told.
const maxDifferences = 20

// difference is what a backup and the present state of a site do not share.
type difference struct {
	revision store.Rev // of the present state
	slices   []string  // that the backup has not; all are as people are told of them
	slivers  []string  // the same
	changed  []string  // slivers of both that have changed since
	back     []string  // slivers of the backup that are gone since
	lifted   []string  // slices of both that have been shut down since
}

// differenceOf compares what would be restored with the present state.
func differenceOf(r *store.Restoration, present *store.Store) (d difference, err error) {
	slices, slivers := map[string]bool{}, map[string]bool{} // slices: whether they are shut down
	err = r.Read(func(v *store.View) error {
		if err := v.Slices(func(s am.Slice) bool { slices[s.URN.Key()] = !s.Shutdown.IsZero(); return true }); err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool { slivers[s.URN.Key()] = true; return true })
	})
	if err != nil {
		return d, err
	}
	there := map[string]bool{}
	err = present.Read(func(v *store.View) error {
		d.revision = v.Revision()
		err := v.Slices(func(s am.Slice) bool {
			switch down, has := slices[s.URN.Key()]; {
			case !has:
				d.slices = append(d.slices, s.URN.String())
			case !down && !s.Shutdown.IsZero():
				d.lifted = append(d.lifted, s.URN.String())
			}
			return true
		})
		if err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool {
			there[s.URN.Key()] = true
			switch {
			case !slivers[s.URN.Key()]:
				d.slivers = append(d.slivers, sliverLine(&s))
			case v.Rev(store.SliverKey(s.URN)) > r.Report.Revision:
				d.changed = append(d.changed, sliverLine(&s))
			}
			return true
		})
	})
	if err != nil {
		return d, err
	}
	err = r.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if !there[s.URN.Key()] {
				d.back = append(d.back, sliverLine(&s))
			}
			return true
		})
	})
	return d, err
}

// sliverLine tells what a sliver is, and whom it hurts if it is lost.
func sliverLine(s *am.Sliver) string {
	on := s.ComponentName
	if on == "" {
		on = s.Component.Name
	}
	line := fmt.Sprintf("%s/%s on %s, of %s, ", s.Slice.Name, s.ClientID, on, s.Creator)
	switch {
	case s.Status.Allocation == am.Unallocated:
		line += "released"
	case s.Frozen:
		line += "shut down"
	default:
		line += "until " + display.Time(s.Expires)
	}
	return display.Line(line)
}

// loses tells whether somebody would miss something.
func (d *difference) loses() bool {
	return len(d.slices)+len(d.slivers)+len(d.changed)+len(d.back)+len(d.lifted) > 0
}

func (d *difference) print(w io.Writer) {
	for _, x := range []struct {
		names []string
		what  string
	}{
		{d.slices, "would be forgotten, slices that the backup has not"},
		{d.slivers, "would be forgotten, slivers that the backup has not"},
		{d.changed, "would be as they were, slivers that have changed since"},
		{d.back, "would be back, slivers that have been released since"},
		{d.lifted, "would be their users' again, with what was on, slices that have been shut down since"},
	} {
		if len(x.names) == 0 {
			continue
		}
		fmt.Fprintf(w, "%d %s:\n", len(x.names), x.what)
		for _, name := range x.names[:min(len(x.names), maxDifferences)] {
			fmt.Fprintf(w, "  %s\n", name)
		}
		if n := len(x.names) - maxDifferences; n > 0 {
			fmt.Fprintf(w, "  and %d more\n", n)
		}
	}
}
