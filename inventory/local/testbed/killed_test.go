package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// beUp is the test binary as "up": its options are in the environment.
func beUp(options string) {
	var o Options
	err := json.Unmarshal([]byte(options), &o)
	var t *Testbed
	if err == nil {
		t, err = Open(o)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = t.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// apart runs the testbed as a process of its own from now on; kill ends it as
// a loss of power would.
func (s *site) apart() (kill func()) {
	s.t.Helper()
	s.stop()
	o := s.options
	o.Log = nil
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.Command(s.options.Program)
	c.Env = append(os.Environ(), "TESTBED_TEST_UP="+string(b))
	c.Stderr = s.t.Output()
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	end := func(sig os.Signal) func() {
		return func() {
			once.Do(func() {
				_ = c.Process.Signal(sig)
				_ = c.Wait()
			})
		}
	}
	s.stop = end(syscall.SIGTERM)
	return end(syscall.SIGKILL)
}

// TestKilledProcess kills the program at random instants while nodes are made
// and removed; then all must be as asked, and in the end nothing be left.
func TestKilledProcess(t *testing.T) {
	s := newSite(t, "testbed-k", 42500)
	const nodes = 4
	want := map[string]provider.Resource{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		kill := s.apart()
		for i := range nodes {
			name := nodeName(i)
			if want[name] == nil || r.IntN(3) > 0 {
				want[name] = s.node(fmt.Sprintf("n%d", i), "alice")
			} else {
				want[name] = provider.Resource{"ensure": "absent"}
			}
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(30+r.IntN(400))*time.Millisecond, func() {
			defer close(killed)
			kill()
		})
		s.try(want)
		<-killed
	}
	s.up()
	for end := time.Now().Add(time.Minute); !s.try(want); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not take what is asked")
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left := ""
		for name, is := range s.get(nodeName(0), nodeName(1), nodeName(2), nodeName(3)) {
			if absent := want[name]["ensure"] == "absent"; absent != (is.Ensure == "absent") || !absent && is.State != "ready" {
				left = fmt.Sprintf("%+v, wanted %v", is, want[name]["ensure"])
			}
		}
		if left == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatal(left)
		}
	}
	for name, is := range s.get(nodeName(0), nodeName(1), nodeName(2), nodeName(3)) {
		if is.Ensure == "absent" {
			continue
		}
		if got := s.mustSSH(is, "alice", "hostname"); got != want[name]["hostname"] {
			t.Errorf("%s says %q", name, got)
		}
	}
}
