package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

var (
	leaseOver = regexp.MustCompile(`(?m)^time=(\S+) level=INFO msg="lease over" .* expires=(\S+)$`)
	serves    = regexp.MustCompile(`(?m)^time=(\S+) level=INFO msg=serving `)
)

// times are the moments that the last line of the log tells which matches.
func (s *served) times(line *regexp.Regexp) (at []time.Time, lines int) {
	s.t.Helper()
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	all := line.FindAllStringSubmatch(string(text), -1)
	if len(all) == 0 {
		return nil, 0
	}
	for _, said := range all[len(all)-1][1:] {
		t, err := time.Parse(time.RFC3339Nano, said)
		if err != nil {
			s.t.Fatal(err)
		}
		at = append(at, t)
	}
	return at, len(all)
}

// TestLeasesOfTheServedProgram has a lease end while the site is served, and one
// while it is down: the second ends as soon as it is served again.
func TestLeasesOfTheServedProgram(t *testing.T) {
	t.Setenv("PATCHBAY_LEASES_ALLOCATED", "3s")
	s := newServed(t, "testbed.example.org", nil, nil)
	s.enlist("ann")
	s.start()
	allocate := func() {
		in := s.insider("ann")
		if _, r, err := in.Allocate(t.Context(), in.sliceURN, in.forSlice(), soakRequest, client.Options{}); err != nil || r.Code != am.Success {
			t.Fatal(r, err)
		}
	}
	ended := func(n int) (at, expires time.Time) {
		t.Helper()
		var times []time.Time
		wait.Until(t, "the end of the lease", func() bool {
			var lines int
			times, lines = s.times(leaseOver)
			return lines >= n
		})
		return times[0], times[1]
	}

	allocate()
	at, expires := ended(1)
	t.Logf("while serving: %v after its time", at.Sub(expires))
	if at.Before(expires.Add(-time.Millisecond)) {
		t.Error("it ended early")
	}

	allocate()
	s.kill()
	_, before := s.times(leaseOver)
	time.Sleep(4 * time.Second) // the lease ends
	s.start()
	at, expires = ended(before + 1)
	begun, _ := s.times(serves)
	t.Logf("while down: %v after the start, %v after its time", at.Sub(begun[0]), at.Sub(expires))
	if at.Before(expires) {
		t.Error("it ended early")
	}
}
