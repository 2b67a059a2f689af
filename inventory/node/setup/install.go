package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func (o *Assignment) install(s *stepFiles, user account, l *log) Report {
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	if err := o.fetchAndUnpack(ctx, s, user, l); err != nil {
		return l.failure(1, o.explainFetch(err))
	}
	return Report{State: Done, Output: l.end()}
}

// explainFetch adds to an error what the experimenter cannot know.
func (o *Assignment) explainFetch(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("the disk of the node is full: %w", err)
	}
	if o.NoEgress && isUnreachable(err) {
		err = fmt.Errorf("%w; nodes of this site have no outside network", err)
	}
	return err
}

// isUnreachable reports whether an install failed because its host name is unknown or there is no
// route.
func isUnreachable(err error) bool {
	_, name := errors.AsType[*net.DNSError](err)
	return name || errors.Is(err, unix.ENETUNREACH)
}

// fetchAndUnpack unpacks an archive into the install path, and copies any other file there.
func (o *Assignment) fetchAndUnpack(ctx context.Context, s *stepFiles, user account, l *log) error {
	f, err := os.OpenFile(s.path("part"), os.O_CREATE|os.O_RDWR|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	defer s.removeDelivered(o.URLs())
	if err := os.Remove(f.Name()); err != nil { // the kernel frees the unnamed file when this process ends
		return err
	}
	note := l.note
	note("fetching %s", displayURL(o.URL))
	c := &client{note: note, retryPauses: retryPauses(), delivered: s}
	size, err := c.fetch(ctx, o.URL, f, s.setProgress)
	if err != nil {
		return err
	}
	to := expandHome(o.InstallPath, user.home)
	name, kept := fileName(o.URL)
	as := detectFormat(o.FileType, name, f)
	note("fetched %d bytes; installing as %s into %s", size, as, to)
	if kept == "" {
		kept = fmt.Sprintf("install-%d", s.n)
	}
	if o.Archive != nil {
		return o.unpackWithOwners(ctx, s, user, l, f, size, as, to, kept)
	}
	p, err := openPlace(to, user, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	if as == formatFile {
		if err := p.saveFile(kept, f, size, nil); err != nil {
			return err
		}
		note("installed as %s", filepath.Join(to, kept))
		return nil
	}
	s.setProgress("unpacking")
	files, err := unpack(ctx, f, as, p, s.setProgress)
	if err != nil {
		return err
	}
	note("unpacked %d entries", files)
	return nil
}

// expandHome returns a path in which ~ is the home.
func expandHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		return filepath.Join(home, rest)
	}
	return filepath.Clean(path)
}

// saveFile copies f to the file name in the place. A script becomes executable. The file belongs to the sole
// owner of o, unless o is nil.
func (p *place) saveFile(name string, f *os.File, size int64, o *owners) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	var begins [2]byte
	if n, _ := f.ReadAt(begins[:], 0); n == 2 && string(begins[:]) == "#!" {
		mode = 0o755 // a script
	}
	w := &writer{p: p, report: func(string) {}, owners: o}
	e := &entry{kind: kindFile, name: name, mode: mode, size: size, body: f}
	if err := w.writeFile(name, e); err != nil {
		return fmt.Errorf("the file could not be written completely to %s: %w", p.path, err)
	}
	return nil
}
