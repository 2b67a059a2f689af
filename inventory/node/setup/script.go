package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	plan "patchbay/rspec/step"
)

// fetchFiles fetches the files of the step into a new folder of this attempt, which then belongs
// to the owner. It returns the folder.
func (o *Assignment) fetchFiles(s *stepFiles, owner account, l *log) (dir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	if err := os.MkdirAll(s.scripts, 0o755); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(s.scripts, fmt.Sprintf("%d-*", s.n)))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil { // a process of an earlier attempt may still write there
			l.note("an old folder of the step is left: %v", err)
		}
	}
	dir = filepath.Join(s.scripts, fmt.Sprintf("%d-%d", s.n, o.Attempt))
	if err := os.Mkdir(dir, 0o700); err != nil { // until it is complete, only root can reach it
		return "", err
	}
	defer s.removeDelivered(o.URLs())
	c := &client{note: l.note, retryPauses: retryPauses(), delivered: s}
	for i := range o.Files {
		if err := fetchFile(ctx, c, &o.Files[i], dir, s.setProgress); err != nil {
			return "", o.explainFetch(fmt.Errorf("the file %s: %w", o.Files[i].Path, err))
		}
	}
	s.setProgress("")
	l.tail = nil // the result has only the output of the script
	return dir, handOver(dir, owner)
}

func fetchFile(ctx context.Context, c *client, file *plan.File, dir string, report func(string)) error {
	path := filepath.Join(dir, file.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	c.note("fetching %s", displayURL(file.URL))
	size, err := c.fetch(ctx, file.URL, f, report)
	if err != nil {
		return err
	}
	c.note("fetched %d bytes as %s", size, file.Path)
	return nil
}

// handOver makes everything in dir belong to the owner, and executable for all. It changes dir
// last; until then only root can change the content.
func handOver(dir string, owner account) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return errors.Join(os.Chmod(path, 0o755), os.Lchown(path, owner.uid, owner.gid))
	})
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(dir, 0o755), os.Lchown(dir, owner.uid, owner.gid))
}

// isInterpreted reports whether a file begins with a line that names its interpreter.
func isInterpreted(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var begins [2]byte
	if _, err := io.ReadFull(f, begins[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return string(begins[:]) == "#!", nil
}
