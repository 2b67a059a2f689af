package setup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/am/file"
)

// unpackWithOwners installs the file f, which an install with an archive has fetched. It first
// checks the whole archive, then creates the accounts, then the folders, and then unpacks. It does
// nothing if the same content was unpacked there before.
func (o *Assignment) unpackWithOwners(ctx context.Context, s *stepFiles, user account, l *log, f *os.File, size int64, as format, to, name string) error {
	record, digest, err := o.artifact(s, f, to, as)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(record); err == nil && string(old) == digest && isFolder(to) {
		l.note("this content was installed before; nothing is changed")
		return nil
	}
	archiveOwners, err := newOwners(o.Archive, user.home)
	if err != nil {
		return err
	}
	for _, folder := range o.Archive.Folders {
		if err := archiveOwners.check(folder.Path, int64(folder.User), int64(folder.Group)); err != nil {
			return err
		}
	}
	sc := &scan{}
	if as != formatFile {
		s.setProgress("reading the archive")
		room, err := freeSpaceAt(to)
		if err != nil {
			return err
		}
		if sc, err = scanArchive(ctx, f, as, to, room, archiveOwners); err != nil {
			return err
		}
	}
	if err := os.Remove(record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := archiveOwners.createAccounts(&s.folders, l.note); err != nil {
		return fmt.Errorf("the accounts of the archive cannot be created: %w", err)
	}
	if as != formatTar {
		sole := archiveOwners.innermost()
		archiveOwners.sole = &sole
	}
	p, err := openPlace(to, root, archiveOwners)
	if err != nil {
		return err
	}
	defer p.Close()
	if as == formatFile {
		err = p.saveFile(name, f, size, archiveOwners)
	} else {
		var files int
		if files, err = unpackScanned(ctx, f, as, p, sc, s.setProgress); err == nil {
			l.note("unpacked %d entries", files)
		}
	}
	if err != nil {
		return err
	}
	if err := p.sync(); err != nil { // what is recorded must not get lost later
		return err
	}
	if err := os.MkdirAll(s.artifacts, 0o700); err != nil {
		return err
	}
	return file.Write(record, []byte(digest), 0o600)
}

// artifact returns the path of the record of what the step has unpacked, and what it contains after
// f was unpacked.
func (o *Assignment) artifact(s *stepFiles, f *os.File, to string, as format) (record, digest string, err error) {
	what, err := json.Marshal([]any{o.URL, to, as, o.Archive})
	if err != nil {
		return "", "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", "", err
	}
	return filepath.Join(s.artifacts, fmt.Sprintf("%x", sha256.Sum256(what))), fmt.Sprintf("%x\n", h.Sum(nil)), nil
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
