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

// folders are where a step leaves what it knows.
type folders struct{ services, logs string }

var inNode = folders{"/var/lib/patchbay/services", "/var/log/patchbay"}

// stepFiles is what is kept of one step.
type stepFiles struct {
	folders
	n    int
	lock *os.File
}

func (s *stepFiles) path(what string) string {
	return filepath.Join(s.services, strconv.Itoa(s.n)+"."+what)
}

func (s *stepFiles) logPath(kind string) string {
	return filepath.Join(s.logs, strconv.Itoa(s.n)+"-"+kind+".log")
}

// errRunning says that the step runs just now.
var errRunning = errors.New("it runs")

// open opens what is kept of step n.
func (f folders) open(n int) (*stepFiles, error) {
	if err := os.MkdirAll(f.services, 0o700); err != nil {
		return nil, err
	}
	s := &stepFiles{folders: f, n: n}
	var err error
	s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	return s, err
}

// acquire locks the step for who runs it, or is errRuns.
func (s *stepFiles) acquire() error {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errRunning
	}
	return err
}

// wait waits until nobody runs the step.
func (s *stepFiles) wait() error {
	for {
		if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}

func (s *stepFiles) unlock() { unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) }

// markBegun marks the step as begun, for good. It is fs.ErrExist when it was before.
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

// report is what is known of a step that nobody runs.
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
		err = fmt.Errorf("it is noted as %.40q", r.State)
	}
	if err != nil {
		return Report{State: Failed, Exit: 255, Message: fmt.Sprintf("what came of it is not known: %v", err)}
	}
	return r
}

// logTail is the end of what an interrupted step printed.
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

// saveReport writes down what came of the step, after all that it did is on the disk.
func (s *stepFiles) saveReport(r Report) error {
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return err
	}
	return durable.WriteFile(s.path("status"), r.encode(), 0o600)
}

// setProgress notes how far the step is, for those who wait.
func (s *stepFiles) setProgress(progress string) {
	text := make([]byte, maxProgress)
	copy(text, progress)
	_, _ = s.lock.WriteAt(text, 0) // nothing depends on it
}

func (s *stepFiles) progress() string {
	text := make([]byte, maxProgress)
	n, _ := s.lock.ReadAt(text, 0)
	return strings.TrimRight(string(text[:n]), "\x00")
}

// progressInterval is how often those who wait look how far a step is.
const progressInterval = 300 * time.Millisecond
