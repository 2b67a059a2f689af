package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/durable"
	"patchbay/am/fileowner"
	"patchbay/am/site"
	"patchbay/am/store"
)

const backupLong = `Write what a site has promised into FILE: all slices and slivers, their requests,
the work to do and the journal, as they are at one moment. The site may be served
meanwhile, and nobody waits. FILE is made beside its place, looked at as a whole,
and gets its name only then; it is readable by its owner alone. FILE - is standard
output. What a backup has left that was killed, the next one in that folder removes.

patchbay restore brings it back. Configuration, inventory, keys, trusted
certificates and the audit are files of their own; copy them as any others.`

type backupOptions struct {
	site  siteFlag
	file  string
	Force bool
}

func (o *backupOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Force, "force", false, "overwrite FILE if it is there")
}

func (o *backupOptions) Validate(args []string) (err error) {
	o.file, err = oneArgument(args, "the file to write, or - for standard output")
	return err
}

func (o *backupOptions) Run(ctx context.Context, c console) (err error) {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	folder := os.TempDir()
	if o.file != "-" {
		folder = filepath.Dir(o.file)
		if err := o.admit(config); err != nil {
			return err
		}
	}
	removeUnfinished(folder, c.err)
	var f *os.File
	err = fileowner.As(folder, func() (err error) { f, err = newBackup(folder); return err })
	if err != nil {
		return fmt.Errorf("cannot make the backup: %w; name a file in a folder that can be written", err)
	}
	defer f.Close() // its lock lasts until then
	defer os.Remove(f.Name())
	report, err := takeBackup(ctx, config, f)
	if err != nil {
		return site.InWordsOf(err, f.Name(), o.file)
	}
	if o.file == "-" {
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.Copy(c.out, f)
		}
		if err != nil {
			return fmt.Errorf("cannot write the backup to standard output: %w", err)
		}
		fmt.Fprintln(c.err, backupLine(report)+".")
		noteBackup(config, c.err)
		return nil
	}
	if err := fileowner.As(folder, func() error { return o.settle(f.Name()) }); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s, in %s.\n", backupLine(report), o.file)
	noteBackup(config, c.err)
	return nil
}

// noteBackup notes that a backup was made, for patchbay_last_backup_timestamp_seconds.
func noteBackup(config *site.Config, told io.Writer) {
	if err := site.MarkBackup(config); err != nil {
		fmt.Fprintf(told, "warning  the backup is good, but the time of the last one cannot be noted for /metrics: %v\n", err)
	}
}

// admit refuses a place for the backup that is taken.
func (o *backupOptions) admit(c *site.Config) error {
	info, err := os.Stat(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if state, err := os.Stat(c.State); err == nil && os.SameFile(info, state) {
		return fmt.Errorf("%s is what is to be kept; name another file", o.file)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; name one that is, or will be", o.file)
	}
	if !o.Force {
		return o.taken()
	}
	return nil
}

func (o *backupOptions) taken() error {
	return fmt.Errorf("%s is there already; name another file, or overwrite it with --force", o.file)
}

// settle gives the backup its name, durably.
func (o *backupOptions) settle(temporary string) error {
	err := os.ErrExist
	if !o.Force {
		// A link, unlike a new name, overwrites nothing; some file systems know none.
		if err = os.Link(temporary, o.file); errors.Is(err, fs.ErrExist) {
			return o.taken()
		}
	}
	if err != nil {
		if err := os.Rename(temporary, o.file); err != nil {
			return err
		}
	}
	return durable.SyncFolder(filepath.Dir(o.file))
}

// takeBackup writes a site's store into f, and looks at what is there then.
func takeBackup(ctx context.Context, c *site.Config, f *os.File) (*store.Report, error) {
	err := site.Stream(ctx, c, "/backup", f)
	if errors.Is(err, site.ErrNotServed) {
		if has, err := c.HasState(); err != nil {
			return nil, err
		} else if !has {
			return nil, fmt.Errorf("there is no %s: the site has promised nothing yet", c.State)
		}
		err = store.Backup(c.State, f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, err
	}
	report, err := store.Check(f.Name())
	if err == nil && report.Site != "" && report.Site != c.Authority {
		err = fmt.Errorf("it is of the site %s, not of %s; name that site's configuration", report.Site, c.Authority)
	}
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("the backup was not kept, for it would be no good: %w; keep older ones, and see what the check command says", err)
	}
	return report, nil
}

// backupLine tells what is in a backup.
func backupLine(r *store.Report) string {
	return fmt.Sprintf("Backup of %s: %s, %s, revision %d, %s",
		r.Site, display.Count(r.Records[store.Slices], "slice"), display.Count(r.Records[store.Slivers], "sliver"), r.Revision, display.Size(r.Size))
}

// unfinished is how the names of backups begin that are being made.
const unfinished = "patchbay-backup-unfinished-"

// newBackup makes the file of a backup in a folder. While it is open a lock tells
// others that it is being made. The lock is a shared one, for the look at what was
// written takes one, too.
func newBackup(folder string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(folder, unfinished+"*")
		if err != nil {
			return nil, err
		}
		// Where there are no locks, nobody removes anything.
		locked := syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
		if locked != nil || isAt(f, f.Name()) {
			return f, nil
		}
		f.Close() // it was removed before it had its lock
	}
}

// removeUnfinished removes from a folder what backups of this user have left that were
// killed, and tells of it.
func removeUnfinished(folder string, told io.Writer) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // a backup cannot be made there, and says so
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(folder, e.Name())
		if removeUnlocked(name) {
			fmt.Fprintf(told, "patchbay: removed %q, which a backup has left that was killed\n", name)
		}
	}
}

// removeUnlocked removes a file of this user that nobody has a lock on.
func removeUnlocked(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	user := os.Geteuid()
	if owner, _, ok, err := fileowner.Other(filepath.Dir(name)); err != nil {
		return false
	} else if ok {
		user = owner
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != user {
		return false
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(f, name) && os.Remove(name) == nil
}

// isAt tells whether an open file still has a name.
func isAt(f *os.File, name string) bool {
	there, err := os.Lstat(name)
	if err != nil {
		return false
	}
	mine, err := f.Stat()
	return err == nil && os.SameFile(there, mine)
}
