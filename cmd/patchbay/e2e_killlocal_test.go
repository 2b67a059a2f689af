package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local"
)

// upPID returns the process of patchbay-local up, which the server has started; 0 if
// there is none.
func (s *localSite) upPID() int {
	tasks, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range tasks {
		words, _ := os.ReadFile(file)
		args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
		if len(args) < 3 || filepath.Base(args[0]) != "patchbay-local" || args[1] != "up" || args[len(args)-1] != s.settings {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			return pid
		}
	}
	return 0
}

// serve waits for the end of the last server's testbed, starts the server, and waits for
// its testbed.
func (s *localSite) serve() {
	s.t.Helper()
	runs := func() bool { return (&site.Testbed{Instance: s.instance}).Runs(s.t.Context(), local.Socket) }
	wait.Until(s.t, "the testbed has ended with its server", func() bool { return !runs() })
	s.start()
	wait.Until(s.t, "the testbed runs", runs)
}

// TestOnHostKilledUnderLoad is TestKilledUnderLoad on the local testbed,
// PATCHBAY_LOCAL_KILLS times or 3. Every other time the process of the nodes is killed
// first. At the end the host is as before.
func TestOnHostKilledUnderLoad(t *testing.T) {
	rounds := killCount(t, "PATCHBAY_LOCAL_KILLS", 3)
	s := newLocalSite(t, "killed.example.org")
	before := s.hostState()
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	write(t, filepath.Join(s.dir, "trusted", "theirs.pem"), readFile(t, root.cert))
	k := newKillTest(t, s.servedSite, f, root, 6)
	begun, ups := time.Now(), 0
	for round := range rounds {
		s.serve()
		k.thaw()
		k.runLoad(func() {
			time.Sleep(200*time.Millisecond + time.Duration(k.rnd.IntN(1500))*time.Millisecond)
			if pid := s.upPID(); round%2 == 1 && pid > 0 {
				ups++
				syscall.Kill(pid, syscall.SIGKILL)
				time.Sleep(time.Duration(k.rnd.IntN(500)) * time.Millisecond)
			}
		})
		s.serve()
		k.compareRecords(round)
		k.awaitIdle()
		k.compareRecords(round)
		has := s.providerNodes("local")
		s.kill()
		s.checkStore(round, has)
		if t.Failed() {
			t.FailNow()
		}
	}
	s.serve()
	k.thaw()
	k.release()
	if has := s.providerNodes("local"); len(has) > 0 {
		t.Errorf("in the end the provider has %v", has)
	}
	s.stop()
	s.checkStore(rounds, nil)
	s.local("clean")
	hoststate.Await(t, before, time.Minute)
	t.Logf("killed %d times under load, the testbed %d times before its server, and as often at rest in %v: %d calls answered, of them acknowledged %v",
		rounds, ups, time.Since(begun).Round(time.Second), k.answered.Load(), k.acks)
}
