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

	"patchbay/am/file"
)

// folders are the folders of a node that this program uses, besides those that a step names.
type folders struct {
	services, logs, scripts, artifacts, etc, cloud string
	cloudInit                                      []string // where images have the program
}

// inNode are the folders in a node; tests use others.
var inNode = folders{
	services: "/var/lib/patchbay/services", logs: "/var/log/patchbay",
	scripts: "/var/lib/patchbay/scripts", artifacts: "/var/lib/patchbay/artifacts",
	etc: "/etc", cloud: "/var/lib/cloud", cloudInit: []string{"/usr/bin/cloud-init", "/usr/local/bin/cloud-init"},
}

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
	// Other users reach their scripts below the same folder.
	if err := os.MkdirAll(filepath.Dir(f.services), 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.services, 0o700); err != nil {
		return nil, err
	}
	s := &stepFiles{folders: f, n: n}
	var err error
	s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	return s, err
}

// acquire fails with errRunning if another process runs the step. The lock belongs to this
// process, so the kernel knows who runs the step: see holder.
func (s *stepFiles) acquire() error {
	for {
		err := unix.FcntlFlock(s.lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err != unix.EAGAIN && err != unix.EACCES {
			return err
		}
		if pid, err := s.holder(); err != nil {
			return err
		} else if pid != 0 {
			return errRunning
		}
		time.Sleep(lockPause) // a process that waited has the lock for a moment
	}
}

const lockPause = time.Millisecond

// holder returns the id of the process that runs the step; 0 if no process does.
func (s *stepFiles) holder() (pid int, err error) {
	l := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(s.lock.Fd(), unix.F_GETLK, &l); err != nil || l.Type != unix.F_WRLCK {
		return 0, err
	}
	return int(l.Pid), nil
}

// wait waits until no process runs the step.
func (s *stepFiles) wait() error {
	defer s.unlock()
	for {
		if err := unix.FcntlFlock(s.lock.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK}); err != unix.EINTR {
			return err
		}
	}
}

func (s *stepFiles) unlock() {
	_ = unix.FcntlFlock(s.lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// beginning is the content of the file "began": the last attempt that began.
type beginning struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at,omitzero"`
}

// begun returns the last attempt that began. The result ok is false if the step never began.
func (s *stepFiles) begun() (b beginning, ok bool, err error) {
	text, err := s.read("began")
	if errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err == nil && len(text) > 0 { // it is empty if an earlier version of this program wrote it
		err = json.Unmarshal(text, &b)
	}
	return b, true, err
}

// markBegun records that an attempt begins. The saved report of an earlier attempt is of no
// effect from then on, since it has another number.
func (s *stepFiles) markBegun(attempt int) error {
	text, err := json.Marshal(beginning{attempt, wholeSeconds(time.Now())})
	if err != nil {
		return err
	}
	if err := file.Write(s.path("began"), text, 0o600); err != nil {
		return err
	}
	if err := os.Remove(s.path("status")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *stepFiles) read(suffix string) ([]byte, error) {
	f, err := os.OpenFile(s.path(suffix), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxLine))
}

// report returns the state of a step that no process runs now. A step that has begun but has
// no result was interrupted.
func (s *stepFiles) report() Report {
	b, ok, err := s.begun()
	if !ok {
		return Report{State: Waiting}
	}
	var r Report
	if err == nil {
		r, err = s.savedReport(b.Attempt)
	}
	switch {
	case err != nil:
		r = Report{State: Failed, Exit: 255, Message: fmt.Sprintf("its result is unknown: %v", err)}
	case r.State == "":
		r = Report{State: Failed, Exit: 255, Message: Interrupted, Output: s.logTail()}
	}
	r.Attempt, r.BeganAt = b.Attempt, b.At
	return r
}

// savedReport returns the result of an attempt, and the zero Report if it has none.
func (s *stepFiles) savedReport(attempt int) (r Report, err error) {
	text, err := s.read("status")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Report{}, nil
	case err != nil:
		return Report{}, err
	case r.Attempt != attempt:
		return Report{}, nil
	case !r.Ended():
		return Report{}, fmt.Errorf("its saved state is %.40q", r.State)
	}
	return r, nil
}

// running returns the report of a step that runs.
func (s *stepFiles) running() Report {
	b, _, _ := s.begun() // without them, the report has no time
	return Report{State: Running, Attempt: b.Attempt, BeganAt: b.At, Progress: s.progress()}
}

// logTail returns the end of the step's log, at most MaxOutput bytes.
func (s *stepFiles) logTail() string {
	for _, kind := range []string{Install, Execute, UserData} {
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

// saveReport saves the result of the attempt that began last. It first syncs everything that the
// step has written.
func (s *stepFiles) saveReport(r Report) error {
	b, _, err := s.begun()
	if err != nil {
		return err
	}
	r.Attempt, r.BeganAt, r.EndedAt = b.Attempt, b.At, time.Now()
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return err
	}
	return file.Write(s.path("status"), r.encode(), 0o600)
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

// Intervals of the reports on a running step.
const (
	progressInterval = 300 * time.Millisecond
	outputInterval   = time.Second
)
