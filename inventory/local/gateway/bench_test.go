package gateway

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// resident is the memory of a process, kB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb float64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		b.Fatal(err)
	}
	return kb
}

// A login with a command that does nothing, one after the other.
func BenchmarkLogin(b *testing.B) {
	s, _, _ := newSite(b)
	k := newKey(b)
	m := s.add("n1", Account{"alice", []string{k.line}})
	for b.Loop() {
		c, err := dial(m.public.Addr().String(), "alice", k, m.host)
		if err != nil {
			b.Fatal(err)
		}
		if err := start(b, c, ":").Wait(); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

func start(b *testing.B, c *ssh.Client, line string) *ssh.Session {
	b.Helper()
	s, err := c.NewSession()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(line); err != nil {
		b.Fatal(err)
	}
	return s
}

// What 300 doors cost, and 100 sessions at them.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		s, _, _ := newSite(b)
		pid := s.gatewayPID()
		k := newKey(b)
		var doors []*machine
		for i := range 300 {
			doors = append(doors, s.add(fmt.Sprintf("n%d", i), Account{"alice", []string{k.line}}))
		}
		b.ReportMetric(resident(b, pid)/1024, "MB/300doors")
		for i := range 100 {
			c, err := dial(doors[i].public.Addr().String(), "alice", k, doors[i].host)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			session := start(b, c, "echo; cat")
			defer session.Close()
		}
		b.ReportMetric(resident(b, pid)/1024, "MB/100sessions")
		s.keeper.end(true)
	}
}

// Output of a command, which the client throws away.
func BenchmarkOutput(b *testing.B) {
	s, _, _ := newSite(b)
	k := newKey(b)
	m := s.add("n1", Account{"alice", []string{k.line}})
	c, err := dial(m.public.Addr().String(), "alice", k, m.host)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	session, err := c.NewSession()
	if err != nil {
		b.Fatal(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := session.Start("cat /dev/zero"); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := io.CopyN(io.Discard, out, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
