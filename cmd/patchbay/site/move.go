package site

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/store"
	"patchbay/cmd/patchbay/command"
)

const moveLong = `Let a copy of a site replace the original. Two servers with copies of one database would
remove each other's nodes. Therefore the database records its file and machine: after mv
within a file system it still works, but a copy (cp, rsync, another disk or machine) is refused
until this command is run for it.

First stop the server of the original site. The command finds it only on this machine. The
copy must not be served either. All sessions and links of its pages end. To inspect a copy:
patchbay serve --read-only`

type moveOptions struct{ site command.SiteFlag }

func (o *moveOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *moveOptions) Validate(args []string) error { return command.NoArguments(args) }

func (o *moveOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	if has, err := config.HasState(); err != nil {
		return err
	} else if !has {
		return fmt.Errorf("there is no %s: %w", config.State, site.ErrNeverServed)
	}
	report, err := store.Check(config.State)
	if err != nil {
		return err
	}
	if report.Copy == "" {
		fmt.Fprintf(c.Out, "%s is not a copy; nothing was changed.\n", config.State)
		return nil
	}
	if by := site.StoreHolder(report.Inode); by != "" {
		return fmt.Errorf("the original of this copy is served %s, and two servers must not change the same nodes; stop that one first", by)
	}
	s, err := store.Open(config.State, store.Options{Site: config.Authority, Move: true})
	if err != nil {
		return err
	}
	err = s.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		cs.Log(am.JournalEntry{At: v.Now().UTC(), Event: "move", Operator: audit.Operator(), Text: display.Printable(report.Copy)})
		return cs, nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := endSessionsAndLinks(c, config); err != nil {
		return fmt.Errorf("the database was moved, but the sessions of its pages go on: %w", err)
	}
	fmt.Fprintf(c.Out, "%s is the database of the site from now on.\nDo not serve the original any more: both would change the same nodes. On its host:\n  systemctl disable --now patchbay, and move the original's %s away\n", config.State, filepath.Base(config.State))
	return nil
}
