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

// state is what is kept of one step.
type state struct {
	folders
	n    int
	lock *os.File
}

func (s *state) path(what string) string {
	return filepath.Join(s.services, strconv.Itoa(s.n)+"."+what)
}

func (s *state) logPath(kind string) string {
	return filepath.Join(s.logs, strconv.Itoa(s.n)+"-"+kind+".log")
}

// errRuns says that the step runs just now.
var errRuns = errors.New("it runs")

// open opens what is kept of step n.
func (f folders) open(n int) (*state, error) {
	if err := os.MkdirAll(f.services, 0o700); err != nil {
		return nil, err
	}
	s := &state{folders: f, n: n}
	var err error
	s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	return s, err
}

// take locks the step for who runs it, or is errRuns.
func (s *state) take() error {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errRuns
	}
	return err
}

// wait waits until nobody runs the step.
func (s *state) wait() error {
	for {
		if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}

func (s *state) free() { unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) }

// begin marks the step as begun, for good. It is fs.ErrExist when it was before.
func (s *state) begin() error {
	f, err := os.OpenFile(s.path("began"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), durable.SyncFolder(s.services))
}

func (s *state) began() bool {
	_, err := os.Lstat(s.path("began"))
	return err == nil
}

// report is what is known of a step that nobody runs.
func (s *state) report() Report {
	f, err := os.OpenFile(s.path("status"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if !s.began() {
			return Report{State: Waiting}
		}
		return Report{State: Failed, Exit: 255, Message: Interrupted, Output: s.printed()}
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

// printed is the end of what an interrupted step printed.
func (s *state) printed() string {
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

// end writes down what came of the step, after all that it did is on the disk.
func (s *state) end(r Report) error {
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return err
	}
	return durable.WriteFile(s.path("status"), r.encode(), 0o600)
}

// say notes how far the step is, for those who wait.
func (s *state) say(progress string) {
	text := make([]byte, maxProgress)
	copy(text, progress)
	_, _ = s.lock.WriteAt(text, 0) // nothing depends on it
}

func (s *state) said() string {
	text := make([]byte, maxProgress)
	n, _ := s.lock.ReadAt(text, 0)
	return strings.TrimRight(string(text[:n]), "\x00")
}

// sayEvery is how often those who wait look how far a step is.
const sayEvery = 300 * time.Millisecond
