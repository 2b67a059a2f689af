package agent

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	haltTime     = 2 * time.Second
	killTime     = 5 * time.Second // for killed processes to end
	pollInterval = 10 * time.Millisecond
)

// halt asks all processes to end, and waits for them up to haltTime. Stopped processes are
// continued so that they receive the signal. Interactive shells end by SIGHUP (see exec).
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

// killUser kills all processes of a user id, also those that start meanwhile, until none is left. It fails
// if that takes longer than killTime, and for system accounts.
func (a *agent) killUser(uid uint32) error {
	kill := a.killUserOnce
	if a.kill != nil {
		kill = a.kill
	}
	if uid < firstUserID {
		return errors.New("processes of system accounts are not killed")
	}
	for until := time.Now().Add(killTime); ; time.Sleep(pollInterval) {
		if !hasProcesses(uid) {
			return nil
		}
		if time.Now().After(until) {
			return errors.New("not all of them have ended in time")
		}
		if err := kill(uid); err != nil {
			return err
		}
	}
}

// killUserOnce kills all processes of a user in one system call, so that none can fork
// and escape. Only a process of that user can make the call, so killUserOnce starts one.
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

// killOwn kills all processes of the user that runs this process.
func killOwn() error {
	if os.Getuid() < firstUserID {
		return errors.New("processes of system accounts are not killed")
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
