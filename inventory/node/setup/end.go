package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// endTime bounds the time in which killed processes must end.
const endTime = 20 * time.Second

// end kills the process that runs step n and the sessions of its commands, and reports the step.
// It changes nothing if the step does not run.
func end(f folders, n int) error {
	s, err := f.open(n)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(endTime)
	killed := false
	for {
		pid, err := s.holder()
		if err != nil {
			return err
		}
		if pid == 0 {
			if err = s.acquire(); err == nil {
				break
			} else if !errors.Is(err, errRunning) {
				return err
			}
			continue
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d, which runs step %d, has not ended within %v", pid, n, endTime)
		}
		if err := s.kill(pid, deadline); err != nil {
			return err
		}
		killed = true
		time.Sleep(lockPause)
	}
	r := s.report()
	if killed && r.Message == Interrupted {
		if err := s.saveReport(Report{State: Failed, Exit: 255, Message: EndedEarly, Output: s.logTail()}); err != nil {
			return err
		}
		r = s.report()
	}
	s.unlock()
	return sendReport(r)
}

// kill kills the process pid and the sessions of its children if it runs the step. It first stops
// the process, so that the process starts no other command, and the ids of the sessions stay taken. After
// the deadline it kills the process without waiting any longer.
func (s *stepFiles) kill(pid int, deadline time.Time) error {
	if pid == os.Getpid() || pid <= 1 {
		return fmt.Errorf("process %d cannot be the one that runs the step", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if again, err := s.holder(); err != nil || again != pid { // the id may be that of another process by now
		return err
	}
	if err := sendSignal(fd, unix.SIGSTOP); err != nil {
		return err
	}
	for { // until it has stopped or ended
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if p, ok := parseStat(pid, text); err != nil || !ok || p.state == 'T' || p.isDead() {
			break
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(lockPause)
	}
	sessions := map[int]bool{}
	eachProcess(func(p process) {
		if p.parent == pid && p.session == p.id {
			sessions[p.id] = true
		}
	})
	for alive := true; alive; {
		alive = false
		eachProcess(func(p process) {
			if sessions[p.session] && !p.isDead() {
				alive = true
				_ = unix.Kill(p.id, unix.SIGKILL) // it may have ended meanwhile
			}
		})
		if time.Now().After(deadline) {
			break
		}
		if alive {
			time.Sleep(lockPause)
		}
	}
	return sendSignal(fd, unix.SIGKILL)
}

func sendSignal(pidfd int, sig unix.Signal) error {
	if err := unix.PidfdSendSignal(pidfd, sig, nil, 0); err != unix.ESRCH {
		return err
	}
	return nil
}

type process struct {
	id, parent, session int
	state               byte
}

func (p process) isDead() bool { return p.state == 'Z' || p.state == 'X' }

// eachProcess calls visit for each process of the node. It skips those that it cannot read.
func eachProcess(visit func(process)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(id, text); ok {
			visit(p)
		}
	}
}

// parseStat reads /proc/ID/stat. The name of the program may contain spaces and parentheses.
func parseStat(id int, text []byte) (p process, ok bool) {
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 4 {
		return p, false
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	return process{id: id, parent: parent, session: session, state: f[0][0]}, err1 == nil && err2 == nil
}
