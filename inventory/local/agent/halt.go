package agent

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	haltTime     = 2 * time.Second
	killTime     = 5 * time.Second // how long processes may take that were killed
	pollInterval = 10 * time.Millisecond
)

// halt asks all processes to end, and waits. What was stopped must go on to
// hear of it; shells at terminals end when these are hung up (see exec).
func (a *agent) halt() error {
	a.haltOnce.Do(func() { close(a.halting) })
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := unix.Kill(-1, s); err != nil && err != unix.ESRCH {
			return err
		}
	}
	for until := time.Now().Add(haltTime); !a.children.isEmpty() && time.Now().Before(until); {
		time.Sleep(pollInterval)
	}
	return nil
}

// killUser kills all processes of a user, until none is left.
func (a *agent) killUser(uid uint32) error {
	if uid < firstUserID {
		return errors.New("processes of the system are not ended")
	}
	for until := time.Now().Add(killTime); ; time.Sleep(pollInterval) {
		if !hasProcesses(uid) {
			return nil
		}
		if time.Now().After(until) {
			return errors.New("its processes do not end")
		}
		if err := a.killUserOnce(uid); err != nil {
			return err
		}
	}
}

// killUserOnce kills all processes of a user in one call, which no fork outruns. It
// takes a process of that user.
func (a *agent) killUserOnce(uid uint32) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := procAttr(account{uid: uid, gid: uid, home: "/"}, nil)
	_, ended, err := a.startProcess("/proc/self/exe", []string{Argv0, argKillOwn}, attr, []*os.File{null, null, null})
	if err != nil {
		return err
	}
	<-ended
	return nil
}

// killOwn kills all processes of the user that this one has.
func killOwn() error {
	if os.Getuid() < firstUserID {
		return errors.New("processes of the system are not ended")
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

func hasProcesses(uid uint32) bool {
	found := false
	eachProcess(func(p process) {
		for _, id := range p.uids {
			found = found || id == uid && !p.dead
		}
	})
	return found
}
