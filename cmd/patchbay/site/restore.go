package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/store"
	"patchbay/cmd/patchbay/command"
)

const restoreLong = `Restore a site's database from a backup. FILE is checked first, and must belong to this
site. It lists the changes since the backup, which would be lost, and then needs --yes. It
also needs --yes if the present database is damaged. The present database is kept beside
the new one, with the time at the end of its name. An undamaged database that cannot be
opened, of another site or a later version, is not replaced.

The site must not be served meanwhile. Then the server manages the slivers of the backup.
It takes no new requests until its providers have reported what exists, or 30 s have
passed. Nodes with resources that are not in the backup take no new slivers; patchbay
nodes --orphans lists these resources, and patchbay release --orphans removes them.
All sessions and links of the site's pages end.`

type restoreOptions struct {
	site command.SiteFlag
	file string
	Yes  bool
}

func (o *restoreOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Yes, "yes", false, "restore even if changes since the backup are lost")
}

func (o *restoreOptions) Validate(args []string) (err error) {
	o.file, err = command.OneArgument(args, "the backup")
	return err
}

func (o *restoreOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s; name the file of a backup", o.file)
	}
	present, broken, err := presentState(config)
	if err != nil {
		return err
	}
	r, err := store.Restore(config.State, o.file, config.Authority)
	if err != nil {
		return errors.Join(site.SuggestOtherBackup(err), closeState(present))
	}
	after, err := o.compare(c, config, r, present, broken)
	if err != nil {
		return errors.Join(err, r.Discard(), closeState(present))
	}
	// Write the mark before the backup replaces the database. A needless mark only delays
	// the next start. Without a mark, the server could reserve nodes that are in use.
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
	fmt.Fprintf(c.Out, "%s.\nThe database was restored from that backup.\n", backupLine(r.Report))
	if kept != "" {
		fmt.Fprintf(c.Out, "The previous database is in %s.\n", kept)
	}
	if err := o.restoreAuthority(c, config); err != nil {
		return fmt.Errorf("the database was restored, but not the trial authority: %w", err)
	}
	if err := endSessionsAndLinks(c, config); err != nil {
		return fmt.Errorf("the database was restored, but the sessions of its pages go on: %w", err)
	}
	if err := updateAudit(config); err != nil {
		fmt.Fprintf(c.Err, "patchbay: the database was restored, but that cannot be recorded in the audit yet: %v\n", err)
	}
	return nil
}

// restoreAuthority restores the second file of a backup, if there is one.
func (o *restoreOptions) restoreAuthority(c command.Console, config *site.Config) error {
	file := o.file + authoritySuffix
	if !userfolder.FileExists(file) {
		return nil
	}
	kept, err := authority.Restore(filepath.Dir(config.Origin.File), file, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "The trial authority was restored from %s.\n", file)
	if kept != "" {
		fmt.Fprintf(c.Out, "Its previous state is in %s.\n", kept)
	}
	return nil
}

// endSessionsAndLinks ends all sessions and links of a site's pages, since some may have been ended after the
// backup, or belong to the original of a copy.
func endSessionsAndLinks(c command.Console, config *site.Config) error {
	has, err := config.EndSessionsAndLinks()
	if has && err == nil {
		fmt.Fprintln(c.Out, "All sessions and links of the pages have ended; members sign in again with: patchbay web")
	}
	return err
}

// presentState opens the present database, so that no server can open it, and writes
// missing lines of the audit. For a damaged database, it returns the damage as broken.
// Without a database, all results are nil.
func presentState(c *site.Config) (s *store.Store, broken, err error) {
	if _, err := os.Lstat(c.State); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	s, err = c.OpenStateReadOnly()
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, nil, fmt.Errorf("%w Stop it first", err)
	case errors.Is(err, store.ErrBroken):
		return nil, err, nil
	case err != nil:
		return nil, nil, fmt.Errorf("the present database is not damaged, so it is not replaced: %w; nothing was changed; to discard it, move it away", err)
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

// compare prints the changes since the backup. The result after is the last revision that
// the site has used. Without --yes, compare fails if the restore affects users, or if the
// present database is damaged.
func (o *restoreOptions) compare(c command.Console, config *site.Config, r *store.Restoration, present *store.Store, broken error) (after store.Rev, err error) {
	if after, err = audit.Seen(config.Audit); err != nil {
		return 0, fmt.Errorf("cannot read the last revision of the audit: %w", err)
	}
	var d difference
	if present != nil {
		d, err = differenceOf(r, present)
		if broken = present.Err(); err != nil && broken == nil { // reading it may find damage
			return 0, err
		}
	}
	if broken != nil {
		fmt.Fprintf(c.Out, "The present database cannot be read, so the changes since the backup are unknown: %v\n", broken)
		if err := printLostReservations(c.Out, config, r); err != nil {
			return 0, err
		}
		if !o.Yes {
			return 0, fmt.Errorf("nothing was changed; add --yes to restore and discard all changes since the backup")
		}
		return max(after, d.revision), nil
	}
	if present == nil {
		if _, lost := config.HasState(); lost != nil {
			fmt.Fprintln(c.Out, "There is no database now, so the changes since the backup are unknown.")
			return after, printLostReservations(c.Out, config, r)
		}
		return after, nil
	}
	d.print(c.Out)
	if d.affectsUsers() && !o.Yes {
		return 0, fmt.Errorf("nothing was changed; add --yes to restore and discard these changes")
	}
	return max(after, d.revision), nil
}

// printLostReservations prints which reservations a backup may lack if the changes since are unknown.
func printLostReservations(w io.Writer, config *site.Config, r *store.Restoration) error {
	var last time.Time
	err := r.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool { last = e.At; return true })
	})
	if err != nil || last.IsZero() {
		return err
	}
	fmt.Fprintf(w, "Reservations that were made after %s are lost", display.Time(last))
	if ahead := config.Leases.AheadMax; ahead > 0 {
		fmt.Fprintf(w, ", also those that begin later: there may be some with a start until %s", display.Time(time.Now().Add(ahead)))
	}
	fmt.Fprintln(w, ".")
	return nil
}

// updateAudit adds the restore to the audit now. Otherwise, the next start of the server would add it.
func updateAudit(c *site.Config) error {
	s, err := c.OpenState()
	if err != nil {
		return err
	}
	log, err := audit.Open(c.Audit, s, audit.Options{})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(log.Close(), s.Close())
}

// maxDifferences limits the printed names for each kind of difference.
const maxDifferences = 20

// difference compares a backup with the present database. Its texts are lines to print.
type difference struct {
	revision store.Rev // of the present database
	slices   []string  // only in the present database
	slivers  []string  // only in the present database
	changed  []string  // slivers in both, changed since the backup
	back     []string  // slivers only in the backup
	lifted   []string  // slices in both, shut down since the backup
}

// differenceOf compares the slices and slivers of a backup with those of the present database.
func differenceOf(r *store.Restoration, present *store.Store) (d difference, err error) {
	slices, slivers := map[string]bool{}, map[string]bool{} // the backup's slices, true if shut down, and slivers
	err = r.Read(func(v *store.View) error {
		if err := v.Slices(func(s am.Slice) bool { slices[s.URN.Key()] = !s.Shutdown.IsZero(); return true }); err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool { slivers[s.URN.Key()] = true; return true })
	})
	if err != nil {
		return d, err
	}
	current := map[string]bool{} // slivers of the present database
	err = present.Read(func(v *store.View) error {
		d.revision = v.Revision()
		err := v.Slices(func(s am.Slice) bool {
			switch wasShutDown, isInBackup := slices[s.URN.Key()]; {
			case !isInBackup:
				d.slices = append(d.slices, s.URN.String())
			case !wasShutDown && !s.Shutdown.IsZero():
				d.lifted = append(d.lifted, s.URN.String())
			}
			return true
		})
		if err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool {
			current[s.URN.Key()] = true
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
			if !current[s.URN.Key()] {
				d.back = append(d.back, sliverLine(&s))
			}
			return true
		})
	})
	return d, err
}

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
	case s.Waits():
		line += "from " + display.Time(s.Begins) + " until " + display.Time(s.Ends)
	default:
		line += "until " + display.Time(s.Expires)
	}
	return display.Line(line)
}

// affectsUsers reports whether the restore would change a user's slice or sliver.
func (d *difference) affectsUsers() bool {
	return len(d.slices)+len(d.slivers)+len(d.changed)+len(d.back)+len(d.lifted) > 0
}

func (d *difference) print(w io.Writer) {
	for _, x := range []struct {
		names []string
		what  string
	}{
		{d.slices, "slices are not in the backup and would be lost"},
		{d.slivers, "slivers are not in the backup and would be lost"},
		{d.changed, "slivers have changed and would be as before"},
		{d.back, "slivers were released and would exist again"},
		{d.lifted, "slices were shut down and would be usable again"},
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
