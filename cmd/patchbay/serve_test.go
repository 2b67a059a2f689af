package main

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
	"patchbay/cmd/patchbay/command"
)

// serverProcess is the command serve, run in this process.
type serverProcess struct {
	dir, url, admin string
	out             *wait.Buffer
	stop            func() int
}

var listeningLine = regexp.MustCompile(`listening on (https://\S+),(?: pages \S+,)? admin (http://\S+)`)

func serve(t testing.TB, dir string, args ...string) *serverProcess {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &serverProcess{dir: dir, out: new(wait.Buffer)}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--config", dir}, args...), command.Console{Out: s.out, Err: s.out})
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	wait.Until(t, "the announcement", func() bool {
		m := listeningLine.FindStringSubmatch(s.out.String())
		if m == nil {
			select {
			case code := <-ended:
				ended <- code
				t.Fatalf("serve ended with %d:\n%s", code, s.out)
			default:
			}
			return false
		}
		s.url, s.admin = m[1], m[2]
		return true
	})
	return s
}

// writerFunc passes output on, and calls a function when a text appears in it.
type writerFunc struct {
	*wait.Buffer
	word string
	act  func()
}

func (e writerFunc) Write(p []byte) (int, error) {
	if strings.Contains(string(p), e.word) {
		e.act()
	}
	return e.Buffer.Write(p)
}

// TestHangupIsHandledFromStart sends SIGHUP as soon as a server prints its address.
func TestHangupIsHandledFromStart(t *testing.T) {
	guard := make(chan os.Signal, 1) // otherwise an unhandled signal ends the tests
	signal.Notify(guard, syscall.SIGHUP)
	defer signal.Stop(guard)
	out, dir := new(wait.Buffer), program.NewSite(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		hangUp := func() {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			<-guard // the signal has arrived
		}
		ended <- run(ctx, []string{"serve", "--config", dir}, command.Console{Out: writerFunc{out, "listening on", hangUp}, Err: out})
	}()
	wait.Until(t, "it is heeded", func() bool { return strings.Contains(out.String(), "the audit was opened again") })
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("stopped with %d:\n%s", code, out)
	}
}
