package site

import (
	"bytes"
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

	"patchbay/am/authority"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
	"patchbay/am/store"
	"patchbay/cmd/patchbay/command"
)

const backupLong = `Write a copy of the database into FILE: slices, slivers, requests, pending tasks and the
journal, as of one moment. It works with and without a running server, and does not delay
calls. FILE gets its name after the copy was checked; only its owner can read it. FILE -
is standard output. Leftovers of an interrupted backup are removed by the next one. The
members, slices and keys of the trial authority are in a second file, FILE.authority.

To restore it: patchbay restore. Configuration, inventory, keys, trusted certificates and
the audit are separate files; copy them like any others.`

type backupOptions struct {
	site  command.SiteFlag
	file  string
	Force bool
}

func (o *backupOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Force, "force", false, "overwrite an existing FILE")
}

func (o *backupOptions) Validate(args []string) (err error) {
	o.file, err = command.OneArgument(args, "the file to write, or - for standard output")
	return err
}

func (o *backupOptions) Run(ctx context.Context, c command.Console) (err error) {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	folder := os.TempDir()
	if o.file != "-" {
		folder = filepath.Dir(o.file)
		if err := o.checkPlace(config); err != nil {
			return err
		}
	}
	removeUnfinished(folder, c.Err)
	var f *os.File
	err = file.AsOwner(folder, func() (err error) { f, err = newBackup(folder); return err })
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot create the backup: there is no folder %s", folder)
	}
	if err != nil {
		return fmt.Errorf("cannot create the backup: %w; name a file in a writable folder", err)
	}
	defer f.Close() // releases the lock
	defer os.Remove(f.Name())
	report, err := takeBackup(ctx, config, f)
	if err != nil {
		return site.ReplacePath(err, f.Name(), o.file)
	}
	if o.file == "-" {
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.Copy(c.Out, f)
		}
		if err != nil {
			return fmt.Errorf("cannot write the backup to standard output: %w", err)
		}
		fmt.Fprintln(c.Err, backupLine(report)+".")
		if userfolder.FileExists(filepath.Join(filepath.Dir(config.Origin.File), authority.FileName)) {
			fmt.Fprintln(c.Err, "warning  the state of the trial authority is not in it; name a FILE to get both")
		}
		noteBackup(config, c.Err)
		return nil
	}
	if err := o.backUpAuthority(ctx, config); err != nil {
		return err
	}
	if err := file.AsOwner(folder, func() error { return o.publish(f.Name()) }); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s, in %s.\n", backupLine(report), o.file)
	noteBackup(config, c.Err)
	return nil
}

// authoritySuffix ends the name of the file with the state of the trial authority.
const authoritySuffix = ".authority"

// backUpAuthority writes the state of the trial authority, if there is one, beside the backup. It
// replaces an existing file, which is of an interrupted backup.
func (o *backupOptions) backUpAuthority(ctx context.Context, config *site.Config) error {
	if !userfolder.FileExists(filepath.Join(filepath.Dir(config.Origin.File), authority.FileName)) {
		return nil
	}
	var copied bytes.Buffer
	err := site.BackUpAuthority(ctx, config, &copied)
	if err == nil {
		err = site.ReplaceFile(o.file+authoritySuffix, copied.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot back up the trial authority: %w", err)
	}
	return nil
}

// noteBackup records the time for patchbay_last_backup_timestamp_seconds.
func noteBackup(config *site.Config, stderr io.Writer) {
	if err := site.MarkBackup(config); err != nil {
		fmt.Fprintf(stderr, "warning  the backup is good, but its time cannot be recorded for /metrics: %v\n", err)
	}
}

// checkPlace refuses the database itself as FILE, anything but a regular file, and an existing FILE
// without --force.
func (o *backupOptions) checkPlace(c *site.Config) error {
	info, err := os.Stat(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if state, err := os.Stat(c.State); err == nil && os.SameFile(info, state) {
		return fmt.Errorf("%s is the database itself; name another file", o.file)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; name a regular file or a new one", o.file)
	}
	if !o.Force {
		return o.existsError()
	}
	return nil
}

func (o *backupOptions) existsError() error {
	return fmt.Errorf("%s exists already; name another file, or overwrite it with --force", o.file)
}

// publish gives the temporary file its name, durably. Without --force, it fails if that file exists.
func (o *backupOptions) publish(temporary string) error {
	needsRename := o.Force
	if !o.Force {
		err := os.Link(temporary, o.file) // unlike a rename, it does not overwrite
		if errors.Is(err, fs.ErrExist) {
			return o.existsError()
		}
		needsRename = err != nil // some file systems have no links
	}
	if needsRename {
		if err := os.Rename(temporary, o.file); err != nil {
			return err
		}
	}
	return file.SyncFolder(filepath.Dir(o.file))
}

// takeBackup copies the database into f, and checks the copy.
func takeBackup(ctx context.Context, c *site.Config, f *os.File) (*store.Report, error) {
	err := site.Connect(c).Stream(ctx, "/backup", f)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, err
	}
	report, err := store.Check(f.Name())
	if err == nil && report.Site != "" && report.Site != c.Authority {
		err = fmt.Errorf("it belongs to the site %s, not to %s; give that site's configuration", report.Site, c.Authority)
	}
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("the backup was removed because it is damaged: %w; keep older ones, and run patchbay check", err)
	}
	return report, nil
}

func backupLine(r *store.Report) string {
	return fmt.Sprintf("Backup of %s: %s, %s, revision %d, %s",
		r.Site, display.Count(r.Records[store.Slices], "slice"), display.Count(r.Records[store.Slivers], "sliver"), r.Revision, display.Size(r.Size))
}

const unfinished = "patchbay-backup-unfinished-"

// newBackup creates the temporary file of a backup, and locks it, so that other commands do not remove
// it. The lock is shared, since the check of the copy also locks the file.
func newBackup(folder string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(folder, unfinished+"*")
		if err != nil {
			return nil, err
		}
		// An error means that the file system has no locks. Then no other command can lock
		// the file either, and so none removes it.
		lockErr := syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
		if lockErr != nil || isAt(f, f.Name()) {
			return f, nil
		}
		f.Close() // another command removed the file before the lock
	}
}

// removeUnfinished removes and reports leftovers of this user's interrupted backups.
func removeUnfinished(folder string, stderr io.Writer) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // creating the backup reports the error
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(folder, e.Name())
		if removeUnlocked(name) {
			fmt.Fprintf(stderr, "patchbay: removed %q, left by an interrupted backup\n", name)
		}
	}
}

// removeUnlocked removes a file only if it belongs to this user and is not locked.
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
	if owner, _, ok, err := file.OtherOwner(filepath.Dir(name)); err != nil {
		return false
	} else if ok {
		user = owner
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != user {
		return false
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(f, name) && os.Remove(name) == nil
}

// isAt reports whether the name still leads to the open file.
func isAt(f *os.File, name string) bool {
	there, err := os.Lstat(name)
	if err != nil {
		return false
	}
	mine, err := f.Stat()
	return err == nil && os.SameFile(there, mine)
}
