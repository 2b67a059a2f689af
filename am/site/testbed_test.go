package site

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/dryrun"
	"patchbay/am/fdsocket"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
	"patchbay/inventory/simulated"
)

// standIn is a testbed whose program is a script. The test answers at its socket.
type standIn struct {
	*testbeds
	t   *testing.T
	dir string
	log *wait.Buffer
}

// newStandIn writes the program; $DIR in the text is a folder of its own.
func newStandIn(t *testing.T, text string) *standIn {
	t.Helper()
	s := &standIn{t: t, dir: t.TempDir(), log: new(wait.Buffer)}
	program := filepath.Join(s.dir, "patchbay-local")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nDIR='"+s.dir+"'\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	bed := &Testbed{Provider: "local", Program: program, Settings: filepath.Join(s.dir, "local.yaml"), Instance: "stand-in"}
	s.testbeds = newTestbeds([]*Testbed{bed}, slog.New(slog.NewTextHandler(s.log, nil)))
	s.root, s.retry, s.patience = true, 10*time.Millisecond, 5*time.Second
	s.socket = func(instance string) string { return filepath.Join(s.dir, instance+".sock") }
	t.Cleanup(func() {
		s.stop()
		text, _ := os.ReadFile(filepath.Join(s.dir, "sleeper"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

// answer answers at the socket until the test ends.
func (s *standIn) writeJSON() io.Closer { return s.answerUnless(new(sync.RWMutex)) }

// answerUnless is answer, but while the lock is held it hangs.
func (s *standIn) answerUnless(hangs *sync.RWMutex) io.Closer {
	s.t.Helper()
	l, err := fdsocket.Listen(s.socket("stand-in"), 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w := fdsocket.New(c.(*net.UnixConn))
			var r local.Request
			hangs.RLock()
			if _, err := w.Receive(&r, local.MaxRequest, 0); err == nil {
				w.Send(local.Answer{Output: []byte(`{}`)})
			}
			hangs.RUnlock()
			w.Close()
		}
	}()
	return l
}

// begun waits until the program has written its pid.
func (s *standIn) begun() (pid int) {
	s.t.Helper()
	wait.Until(s.t, "the program runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	return pid
}

const lasting = `trap 'echo "level=WARN msg=leaving"; exit 0' TERM
echo "time=2030-01-01T00:00:00Z level=ERROR msg=\"disk full\" args=\"$*\"" >&2
setsid sleep 100 &
echo $! >"$DIR/sleeper"
echo $$ >"$DIR/pid.new"; mv "$DIR/pid.new" "$DIR/pid"
while :; do sleep 0.02; done
`

func TestServeRunsTheTestbed(t *testing.T) {
	s := newStandIn(t, lasting)
	started := make(chan bool)
	go func() { s.start(t.Context()); close(started) }()
	pid := s.begun()
	select {
	case <-started:
		t.Error("it did not wait until the testbed answers")
	case <-time.After(50 * time.Millisecond):
	}
	s.writeJSON()
	<-started
	begun := time.Now()
	s.stop()
	if took := time.Since(begun); took > 30*time.Second { // sleep holds its streams
		t.Errorf("ending took %v", took)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the program lives on")
	}
	has(t, s.log.String(), "level=ERROR msg=\"disk full args=\\\"up "+s.dir+"/local.yaml\\\"\"",
		"level=WARN msg=leaving", "the local testbed is started", "instance=stand-in")
	if strings.Contains(s.log.String(), "has ended") {
		t.Errorf("a requested stop is logged as a failure: %s", s.log)
	}
}

func TestServeStartsTheTestbedAgain(t *testing.T) {
	s := newStandIn(t, `echo x >>"$DIR/starts"; echo "error: cannot mount" >&2; exit 3`)
	s.patience = time.Minute
	begun := time.Now()
	s.start(t.Context())
	if time.Since(begun) > 30*time.Second {
		t.Error("it waits for what has ended")
	}
	starts := func() int {
		text, _ := os.ReadFile(filepath.Join(s.dir, "starts"))
		return bytes.Count(text, []byte("x"))
	}
	wait.Until(t, "three starts", func() bool { return starts() >= 3 })
	s.writeJSON() // as when an operator starts it by hand
	wait.Until(t, "it is left to the other process", func() bool { return strings.Contains(s.log.String(), "by another process") })
	had := starts()
	s.stop()
	if starts() != had {
		t.Error("it was started although another testbed answers")
	}
	has(t, s.log.String(), `level=ERROR msg="cannot mount"`, "exit status 3", "again_in=10ms", "again_in=20ms", "again_in=40ms")
}

// TestServeStartsATestbedThatEndsWithAnotherServer has the testbed of a killed server still
// answer when the next server starts. Its later end must start it again.
func TestServeStartsATestbedThatEndsWithAnotherServer(t *testing.T) {
	s := newStandIn(t, lasting)
	ending := s.writeJSON()
	s.start(t.Context())
	has(t, s.log.String(), "the local testbed runs already")
	if err := ending.Close(); err != nil {
		t.Fatal(err)
	}
	s.begun()
	s.stop()
	has(t, s.log.String(), "the local testbed that ran has ended", "the local testbed is started")
}

func TestServeNoticesATestbedThatHangs(t *testing.T) {
	s := newStandIn(t, lasting)
	started := make(chan bool)
	go func() { s.start(t.Context()); close(started) }()
	pid := s.begun()
	var hangs sync.RWMutex
	s.answerUnless(&hangs)
	<-started
	hangs.Lock()
	wait.Until(t, "it is noticed", func() bool { return strings.Contains(s.log.String(), "the local testbed hangs") })
	hangs.Unlock()
	wait.Until(t, "it is noticed that it goes on", func() bool { return strings.Contains(s.log.String(), "answers again") })
	if err := syscall.Kill(pid, 0); err != nil {
		t.Error("the program was killed")
	}
}

func TestServeKillsATestbedThatDoesNotEnd(t *testing.T) {
	s := newStandIn(t, strings.Replace(lasting, `'echo "level=WARN msg=leaving"; exit 0'`, "''", 1))
	s.patience = 300 * time.Millisecond
	s.start(t.Context()) // it gets no answer in time
	pid := s.begun()
	s.stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the program lives on")
	}
	has(t, s.log.String(), "does not end and is killed")
}

func TestServeStartsNoTestbedThatItMayNot(t *testing.T) {
	s := newStandIn(t, lasting)
	s.root = false
	s.start(t.Context())
	has(t, s.log.String(), "level=WARN", "does not run", s.dir+"/patchbay-local up "+s.dir+"/local.yaml")

	s = newStandIn(t, lasting)
	s.writeJSON()
	s.start(t.Context())
	has(t, s.log.String(), "runs already")
	s.stop()
	if _, err := os.Stat(filepath.Join(s.dir, "pid")); err == nil {
		t.Error("a second testbed was started")
	}
}

// TestRootStartsNoProgramThatTheOwnerOfASiteNames proves that a server of root does not start
// a program named by the script in a site of another user.
func TestRootStartsNoProgramThatTheOwnerOfASiteNames(t *testing.T) {
	require.Root(t)
	s := newStandIn(t, lasting)
	if err := os.Chown(s.dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	s.start(t.Context())
	s.stop()
	has(t, s.log.String(), "the site belongs to user 12345", "beside its own program, and that one is missing", "start the testbed yourself: "+s.dir+"/patchbay-local up")
	if _, err := os.Stat(filepath.Join(s.dir, "pid")); err == nil {
		t.Error("it was started")
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), "patchbay-local")
	if err := os.WriteFile(beside, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(beside) })
	if words, err := s.list[0].trustedCommand(); err != nil || words[0] != beside {
		t.Errorf("%q, %v", words, err)
	}
}

func TestTestbedsAreFoundByTheirScripts(t *testing.T) {
	inv, err := inventory.Parse(inventory.LocalText("example.org", inventory.Host{Name: "h"}), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	other, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	good := string(local.SettingsFor(local.Site{Instance: "here-1"}))
	for _, tt := range []struct {
		rule, script, settings, program string
		inventory                       *inventory.Inventory
	}{
		{"as init makes it", string(local.Script("/usr/bin/patchbay-local", "local")), good, "/usr/bin/patchbay-local", inv},
		{"with a strange path", string(local.Script("/opt/it's mine/patchbay-local", "local")), good, "/opt/it's mine/patchbay-local", inv},
		{"without settings", string(local.Script("/x", "local")), "", "/x", inv},
		{"wrong settings", string(local.Script("/x", "local")), "instance: [", "", inv},
		{"offered nowhere", string(local.Script("/x", "local")), good, "", other},
		{"another name", string(local.Script("/x", "rack")), good, "", inv},
		{"the simulated provider", string(simulated.Script("/x", "local")), good, "", inv},
		{"changed by hand", strings.Replace(string(local.Script("/x", "local")), "exec", "sleep 1\nexec", 1), good, "", inv},
		{"another program", "#!/bin/sh\nexec /x local --name local; reboot\n", good, "", inv},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "local.prov"), []byte(tt.script), 0o755); err != nil {
			t.Fatal(err)
		}
		if tt.settings != "" {
			if err := os.WriteFile(filepath.Join(dir, "local.yaml"), []byte(tt.settings), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		found := findTestbeds(dir, providersOf(tt.inventory))
		switch {
		case tt.program == "" && len(found) > 0:
			t.Errorf("%s: found %+v", tt.rule, *found[0])
		case tt.program != "" && (len(found) != 1 || found[0].Program != tt.program || found[0].Settings != filepath.Join(dir, "local.yaml") || found[0].Instance == ""):
			t.Errorf("%s: found %v", tt.rule, found)
		}
	}
}

func TestLinesOfATestbed(t *testing.T) {
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		`time=2030-01-01T00:00:00.000Z level=WARN msg="a b" c=1`: {slog.LevelWarn, `a b c=1`},
		"level=DEBUG msg=x":             {slog.LevelDebug, "x"},
		"level=strange msg=x":           {slog.LevelInfo, "level=strange msg=x"},
		"error: cannot":                 {slog.LevelError, "cannot"},
		`msg="half`:                     {slog.LevelInfo, `"half`},
		"said":                          {slog.LevelInfo, "said"},
		"time=":                         {slog.LevelInfo, ""},
		strings.Repeat("x", maxLogLine): {slog.LevelInfo, strings.Repeat("x", maxLogLine)},
	} {
		if level, text := logLine(line); level != want.level || text != want.text {
			t.Errorf("%.50q: %v %.50q", line, level, text)
		}
	}
}

// The error of a testbed that refuses our connection is reported.
func TestTestbedThatDoesNotLetUsIn(t *testing.T) {
	s := newStandIn(t, "exit 0")
	l, err := fdsocket.Listen(s.socket("stand-in"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w := fdsocket.New(c.(*net.UnixConn))
			w.Send(local.Answer{Error: "user 1000 may not use the testbed"})
			w.Close()
		}
	}()
	s.start(t.Context())
	has(t, s.log.String(), "level=ERROR", "runs already, but does not answer requests", "user 1000 may not use the testbed")
	if _, err := s.list[0].List(t.Context(), s.socket); err == nil || errors.Is(err, local.ErrDown) {
		t.Errorf("asking: %v", err)
	}
}

// prompt is a provider that answers immediately.
type prompt struct{ dryrun.Provider }

func (prompt) Get(context.Context, []string) (map[string]provider.Result, error) { return nil, nil }

// TestDryRunsWaitForTheTestbed proves that a dry run waits while this process starts the testbed, also
// when it has ended, for a limited time, and that it does not wait for testbeds of other processes.
func TestDryRunsWaitForTheTestbed(t *testing.T) {
	get := func(s *standIn, name string) chan error {
		p, ok := s.awaitStart(func(name string) (dryrun.Provider, bool) { return prompt{}, name != "none" })(name)
		if !ok {
			return nil
		}
		done := make(chan error, 1)
		go func() { _, err := p.Get(t.Context(), nil); done <- err }()
		return done
	}
	waits := func(what string, done chan error) {
		t.Helper()
		select {
		case err := <-done:
			t.Errorf("%s: it does not wait: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	s := newStandIn(t, lasting)
	if get(s, "none") != nil {
		t.Error("a provider that does not exist is found")
	}
	if err := <-get(s, "other"); err != nil {
		t.Error(err)
	}
	first := get(s, "local")
	waits("before the start", first)
	go s.start(t.Context())
	pid := s.begun()
	waits("while it starts", first)
	socket := s.writeJSON()
	if err := <-first; err != nil {
		t.Error(err)
	}
	socket.Close()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := get(s, "local")
	waits("after it has ended", again)
	s.patience = time.Millisecond
	if err := <-get(s, "local"); err == nil || !strings.Contains(err.Error(), "is starting and does not answer yet") {
		t.Errorf("after the limit: %v", err)
	}
	s.writeJSON()
	if err := <-again; err != nil {
		t.Error(err)
	}

	s = newStandIn(t, lasting)
	s.root = false
	s.start(t.Context())
	if err := <-get(s, "local"); err != nil {
		t.Errorf("a testbed that this process does not start: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s = newStandIn(t, lasting); !s.await(ended, "local") {
		t.Error("it waits although the call has ended")
	}
}

// TestReloadRestartsATestbedWithChangedSettings proves that only a change of a value restarts a testbed,
// that wrong settings change nothing, and that a testbed of another process is only reported until it
// was restarted.
func TestReloadRestartsATestbedWithChangedSettings(t *testing.T) {
	s := newStandIn(t, `echo x >>"$DIR/starts"`+"\n"+lasting)
	settings := func(outbound string) string {
		return strings.Replace(string(local.SettingsFor(local.Site{Instance: "stand-in"})), "outbound: no", "outbound: "+outbound, 1)
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "local.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "local.prov"), local.Script(s.list[0].Program, "local"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(settings("no"))
	bed, err := OpenTestbed(s.dir, "local")
	if err != nil {
		t.Fatal(err)
	}
	s.list = []*Testbed{bed}
	go s.start(t.Context())
	s.begun()
	socket := s.writeJSON()
	<-s.started
	for _, tt := range []struct{ rule, text, wrong string }{
		{"nothing", settings("no"), ""},
		{"a comment", settings("no") + "# more\n", ""},
		{"a mistake", settings("perhaps"), "must be yes or no"},
		{"another instance", strings.Replace(settings("no"), "stand-in", "other", 1), "its nodes would be lost; set it back"},
	} {
		put(tt.text)
		if list, err := s.changed(s.dir); len(list) > 0 || tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v, %v", tt.rule, list, err)
		}
	}
	put(strings.Replace(settings("yes"), "memory: 512M", "memory: 600M", 1))
	list, err := s.changed(s.dir)
	if err != nil || len(list) != 1 || !list[0].own || !strings.HasSuffix(list[0].report().Text, "restarts with the new settings; its nodes and open logins continue; existing nodes get Internet access, too; sliver_types takes effect only for new nodes") {
		t.Fatalf("%v, %v", list, err)
	}
	socket.Close()
	restarted := make(chan struct{})
	go func() { s.restart(list[0]); close(restarted) }()
	wait.Until(t, "it is started again", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "starts"))
		return bytes.Count(text, []byte("x")) == 2
	})
	s.writeJSON()
	<-restarted
	if list, err := s.changed(s.dir); err != nil || len(list) > 0 || !s.list[0].Outbound {
		t.Errorf("afterwards: %v, %v", list, err)
	}

	s.handled[s.list[0]].own.Store(false) // pretend that another process runs it
	put(settings("no"))
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, "local.yaml"), later, later); err != nil {
		t.Fatal(err)
	}
	list, err = s.changed(s.dir)
	if err != nil || len(list) != 1 || list[0].own || !strings.Contains(list[0].report().Text, "when the local testbed is restarted, by its service or with: ") || !strings.Contains(list[0].report().Text, "; existing nodes lose Internet access, too") {
		t.Errorf("of another process: %v, %v", list, err)
	}
	if err := os.Chtimes(s.socket("stand-in"), later.Add(time.Hour), later.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if list, err := s.changed(s.dir); err != nil || len(list) > 0 {
		t.Errorf("of another process, after a restart: %v, %v", list, err)
	}
}

// TestATestbedComesAndGoesWithTheInventory checks that a testbed is started when a later
// inventory names it, and stopped only when no sliver needs it any more.
func TestATestbedComesAndGoesWithTheInventory(t *testing.T) {
	s := newStandIn(t, lasting)
	bed := s.list[0]
	s.list = nil
	s.start(t.Context())
	defer s.stop()
	followed := make(chan struct{})
	go func() { s.add([]*Testbed{bed}); close(followed) }()
	pid := s.begun()
	s.writeJSON()
	<-followed
	s.add([]*Testbed{{Provider: bed.Provider}}) // it exists already
	s.retire(map[string]bool{bed.Provider: true})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("it has ended while it is needed: %v", err)
	}
	s.retire(nil)
	wait.Until(t, "it has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	if len(s.list) > 0 {
		t.Error("it is still one of them")
	}
}
