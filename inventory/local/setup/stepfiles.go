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

// folders are the folders with the files of steps.
type folders struct{ services, logs string }

// inNode are the folders in a node; tests use others.
var inNode = folders{"/var/lib/patchbay/services", "/var/log/patchbay"}

// stepFiles gives access to the files of one step.
type stepFiles struct {
	folders
	n    int
	lock *os.File
}

// path returns the path of the step's file with that suffix.
func (s *stepFiles) path(suffix string) string {
	return filepath.Join(s.services, strconv.Itoa(s.n)+"."+suffix)
}

func (s *stepFiles) logPath(kind string) string {
	return filepath.Join(s.logs, strconv.Itoa(s.n)+"-"+kind+".log")
}

// errRunning says that another process runs the step.
var errRunning = errors.New("it runs")

// open opens the lock file of step n, and creates it if necessary.
func (f folders) open(n int) (*stepFiles, error) {
	if err := os.MkdirAll(f.services, 0o700); err != nil {
		return nil, err
	}
	s := &stepFiles{folders: f, n: n}
	var err error
	s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	return s, err
}

// acquire locks the step to run it. It fails with errRunning if another process runs it.
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

// markBegun records permanently that the step was started. It fails with fs.ErrExist if that
// is already recorded.
func (s *stepFiles) markBegun() error {
	f, err := os.OpenFile(s.path("began"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), durable.SyncFolder(s.services))
}

// hasBegun reports whether the step was started at some time.
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

// logTail returns the end of the log of an interrupted step.
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

// saveReport saves the result, after syncing everything that the step has written.
func (s *stepFiles) saveReport(r Report) error {
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return err
	}
	return durable.WriteFile(s.path("status"), r.encode(), 0o600)
}

// setProgress publishes the progress of the step to waiting processes.
func (s *stepFiles) setProgress(progress string) {
	text := make([]byte, maxProgress)
	copy(text, progress)
	_, _ = s.lock.WriteAt(text, 0) // an error only hides the progress
}

// progress returns the progress that setProgress has published.
func (s *stepFiles) progress() string {
	text := make([]byte, maxProgress)
	n, _ := s.lock.ReadAt(text, 0)
	return strings.TrimRight(string(text[:n]), "\x00")
}

// progressInterval is the interval at which waiting processes read the progress.
const progressInterval = 300 * time.Millisecond
