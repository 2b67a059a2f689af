package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// rotate runs logrotate with our rules for the site. Without logrotate it renames the
// audit in the same way.
func (s *servedSite) rotate() {
	s.t.Helper()
	program, err := exec.LookPath("logrotate")
	if err != nil {
		log := filepath.Join(s.dir, "audit.log")
		for n := 1; ; n++ {
			if name := fmt.Sprint(log, ".", n); !exists(name) {
				if err := os.Rename(log, name); err != nil {
					s.t.Fatal(err)
				}
				return
			}
		}
	}
	rules := strings.ReplaceAll(readFile(s.t, "logrotate"), "/var/lib/patchbay", s.dir)
	rules = regexp.MustCompile(`(?m)^\tsu .*\n`).ReplaceAllString(rules, "") // the user does not exist here
	file := filepath.Join(s.t.TempDir(), "patchbay")
	write(s.t, file, rules)
	if out, err := exec.Command(program, "--force", "--state", file+".state", file).CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// TestRotationLosesNoLine rotates the audit during changing calls: each change has
// exactly one line in one of the files.
func TestRotationLosesNoLine(t *testing.T) {
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	s.createUser("alice")
	s.start()
	alice := s.newAuditUser("alice")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done atomic.Int64
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			if _, r, err := alice.Allocate(t.Context(), alice.sliceURN, alice.forSlice(), soakRequest, client.Options{}); err != nil {
				t.Errorf("Allocate: %v %s", err, r.Output)
				return
			}
			done.Add(1)
			if _, r, err := alice.Delete(t.Context(), []string{alice.sliceURN}, alice.forSlice(), client.Options{}); err != nil {
				t.Errorf("Delete: %v %s", err, r.Output)
				return
			}
			done.Add(1)
		}
	})
	const rotations = 4
	for range rotations {
		before := done.Load()
		wait.Until(t, "changes", func() bool { return t.Failed() || done.Load() > before+10 })
		s.rotate()
	}
	stop()
	working.Wait()
	s.stop()

	files, err := filepath.Glob(filepath.Join(s.dir, "audit.log*"))
	if err != nil || len(files) != rotations+1 {
		t.Errorf("the audit is in %q, %v; want %d files", files, err, rotations+1)
	}
	lines := map[string]int{}
	for _, l := range s.auditLines() {
		for _, id := range l.Journal {
			lines[id]++
		}
	}
	state, err := store.Open(filepath.Join(s.dir, "state.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	entries := 0
	err = state.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if entries++; lines[e.ID] != 1 {
				t.Errorf("%s of %s (%s) has %d lines", e.Event, e.Slice, e.ID, lines[e.ID])
			}
			return true
		})
	})
	if err != nil || int64(entries) < done.Load() || done.Load() == 0 {
		t.Errorf("the journal has %d entries of %d changes, %v", entries, done.Load(), err)
	}
	t.Logf("%d changes, the audit is in %q", done.Load(), files)
}
