package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/durable"
)

type folders struct{ services, logs string }

// inNode are the folders in a node; tests use others.
var inNode = folders{"/var/lib/patchbay/services", "/var/log/patchbay"}

type stepFiles struct {
	folders
	n    int
	lock *os.File
}

func (s *stepFiles) path(suffix string) string {
	return filepath.Join(s.services, strconv.Itoa(s.n)+"."+suffix)
}

func (s *stepFiles) logPath(kind string) string {
	return filepath.Join(s.logs, strconv.Itoa(s.n)+"-"+kind+".log")
}

// errRunning says that another process runs the step.
var errRunning = errors.New("it runs")

func (f folders) open(n int) (*stepFiles, error) {
	if err := os.MkdirAll(f.services, 0o700); err != nil {
		return nil, err
	}
	s := &stepFiles{folders: f, n: n}
	var err error
	s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	return s, err
}

// acquire fails with errRunning if another process runs the step.
func (s *stepFiles) acquire() error {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errRunning
	}
	return err
}

// wait waits until no process runs the step.
func (s *stepFiles) wait() error {
	for {
		if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}

func (s *stepFiles) unlock() { unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) }

// markBegun fails with fs.ErrExist if the step was started before.
func (s *stepFiles) markBegun() error {
	f, err := os.OpenFile(s.path("began"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), durable.SyncFolder(s.services))
}

func (s *stepFiles) hasBegun() bool {
	_, err := os.Lstat(s.path("began"))
	return err == nil
}

// report returns the state of a step that no process runs now. A step that was started but
// has no result was interrupted.
func (s *stepFiles) report() Report {
	f, err := os.OpenFile(s.path("status"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if !s.hasBegun() {
			return Report{State: Waiting}
		}
		return Report{State: Failed, Exit: 255, Message: Interrupted, Output: s.logTail()}
	}
	var r Report
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, maxLine)); err == nil {
			err = json.Unmarshal(text, &r)
		}
	}
	if err == nil && !r.Ended() {
		err = fmt.Errorf("its saved state is %.40q", r.State)
	}
	if err != nil {
		return Report{State: Failed, Exit: 255, Message: fmt.Sprintf("its result is unknown: %v", err)}
	}
	return r
}

func (s *stepFiles) logTail() string {
	for _, kind := range []string{Install, Execute} {
		f, err := os.OpenFile(s.logPath(kind), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
			continue
		} else if st.Size() > MaxOutput {
			f.Seek(-MaxOutput, io.SeekEnd)
		}
		text, _ := io.ReadAll(io.LimitReader(f, MaxOutput))
		return string(text)
	}
	return ""
}

// saveReport first syncs everything that the step has written.
func (s *stepFiles) saveReport(r Report) error {
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return err
	}
	return durable.WriteFile(s.path("status"), r.encode(), 0o600)
}

func (s *stepFiles) setProgress(progress string) {
	text := make([]byte, maxProgress)
	copy(text, progress)
	_, _ = s.lock.WriteAt(text, 0) // an error only hides the progress
}

func (s *stepFiles) progress() string {
	text := make([]byte, maxProgress)
	n, _ := s.lock.ReadAt(text, 0)
	return strings.TrimRight(string(text[:n]), "\x00")
}

const progressInterval = 300 * time.Millisecond
