package site

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/service/dryrun"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/supervisor"
)

// standIn is a service whose program is a script. The test answers at its socket.
type standIn struct {
	*companions
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
	file := filepath.Join(s.dir, "local.yaml")
	bed := &Companion{Provider: "local", Command: []string{program, "up", file}, File: file, Settings: provider.Settings{Instance: "stand-in"}}
	s.companions = newCompanions([]*Companion{bed}, slog.New(slog.NewTextHandler(s.log, nil)))
	s.root, s.retry, s.patience = true, 10*time.Millisecond, 5*time.Second
	s.heartbeat = supervisor.Heartbeat{Every: 100 * time.Millisecond, Limit: 2}
	s.companions.answers = func(ctx context.Context, _ *Companion) error { return s.ask(ctx) }
	t.Cleanup(func() {
		s.stop()
		text, _ := os.ReadFile(filepath.Join(s.dir, "sleeper"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

func (s *standIn) socket() string { return filepath.Join(s.dir, "x.sock") }

// ask fails unless a process answers at the socket.
func (s *standIn) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := fdsocket.Dial(ctx, s.socket())
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	var answer struct{}
	_, err = c.Receive(&answer, 100, 0)
	return err
}

// answer answers at the socket until the test ends.
func (s *standIn) answer() io.Closer { return s.answerUnless(new(sync.RWMutex)) }

// answerUnless is answer, but while the lock is held it hangs.
func (s *standIn) answerUnless(hangs *sync.RWMutex) io.Closer {
	s.t.Helper()
	l, err := fdsocket.Listen(s.socket(), 0o600)
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
			hangs.RLock()
			w.Send(struct{}{})
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
	s.answer()
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
		"level=WARN msg=leaving", "the service of the provider is started", "instance=stand-in")
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
	s.answer() // as when an operator starts it by hand
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
	ending := s.answer()
	s.start(t.Context())
	has(t, s.log.String(), "the service of the provider runs already")
	if err := ending.Close(); err != nil {
		t.Fatal(err)
	}
	s.begun()
	s.stop()
	has(t, s.log.String(), "the service of the provider that ran has ended", "the service of the provider is started")
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
	wait.Until(t, "it is noticed", func() bool { return strings.Contains(s.log.String(), "does not answer, so nodes are neither") })
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

func TestServeStartsNoSecondTestbedAndNoneWithoutRoot(t *testing.T) {
	s := newStandIn(t, lasting)
	s.root = false
	s.start(t.Context())
	has(t, s.log.String(), "level=WARN", "does not answer, so its nodes cannot", s.dir+"/patchbay-local up "+s.dir+"/local.yaml")

	s = newStandIn(t, lasting)
	s.answer()
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
	has(t, s.log.String(), "local.yaml belongs to user 12345", "beside its own program, and that one is missing", "start the service yourself: "+s.dir+"/patchbay-local up")
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
	c := s.list[0]
	if words, err := c.trustedCommand(); err != nil || words[0] != beside {
		t.Errorf("%q, %v", words, err)
	}
	for _, words := range [][]string{{"/bin/rm", "up", c.File}, {"/x/patchbay-local", "clean", c.File}, {"/x/patchbay-local", "up", "--state", "/etc", c.File}} {
		if _, err := (&Companion{File: c.File, Command: words}).trustedCommand(); err == nil || !strings.Contains(err.Error(), "with the arguments up and local.yaml") {
			t.Errorf("%q: %v", words, err)
		}
	}

	// In a site of root, the file with the metadata counts.
	c = &Companion{File: filepath.Join(t.TempDir(), "local.yaml"), Command: []string{"/bin/rm", "-f"}}
	if err := os.WriteFile(c.File, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if words, err := c.trustedCommand(); err != nil || words[0] != "/bin/rm" {
		t.Errorf("of root: %q, %v", words, err)
	}
	if err := os.Chmod(c.File, 0o664); err != nil {
		t.Fatal(err)
	}
	if _, err := c.trustedCommand(); err == nil {
		t.Error("a group may name the program of root")
	}
}

// TestCompanionsAreFound checks which provider has a service.
func TestCompanionsAreFound(t *testing.T) {
	inv, err := inventory.Parse(inventory.LocalText("example.org", inventory.Host{Name: "h"}), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	other, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	const head, script = "provider:\n  type: node\n  invoke: json\n  suitable: true\n  attributes: {name: {type: string}}\n", "#!/bin/sh\ncat answer.yaml\n"
	earlier := func(program string) string { return "#!/bin/sh\nexec " + program + " local --name local \"$@\"\n" }
	for _, tt := range []struct {
		rule, script, file, answer string
		inventory                  *inventory.Inventory
		program                    string
	}{
		{"with a service", script, head + "  service: [/usr/bin/rack, up, local.yaml]\n", "settings: {instance: a}", inv, "/usr/bin/rack"},
		{"not described", "#!/bin/sh\nexit 1\n", head + "  service: [/usr/bin/rack, up, local.yaml]\n", "", inv, "/usr/bin/rack"},
		{"wrong settings", script, head + "  service: [/usr/bin/rack, up, local.yaml]\n", "settings: {problems: [{line: 7, message: wrong}]}", inv, ""},
		{"a relative path", script, head + "  service: [rack, up]\n", "", inv, ""},
		{"offered nowhere", script, head + "  service: [/usr/bin/rack, up, local.yaml]\n", "", other, ""},
		{"without a service", script, head, "", inv, ""},
		{"of an earlier version", earlier("/usr/bin/patchbay-local"), head, "", inv, "/usr/bin/patchbay-local"},
		{"with a strange path", earlier(`'/opt/it'\''s mine/patchbay-local'`), head, "", inv, "/opt/it's mine/patchbay-local"},
		{"changed by hand", strings.Replace(earlier("/x"), "exec", "sleep 1\nexec", 1), head, "", inv, ""},
		{"two commands", earlier("/x; /y"), head, "", inv, ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"local.prov": tt.script, "local.yaml": tt.file, "answer.yaml": tt.answer} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		found := findCompanions(dir, providersOf(tt.inventory))
		want := []string{tt.program, "up", filepath.Join(dir, "local.yaml")}
		if tt.program == "" && len(found) > 0 || tt.program != "" && (len(found) != 1 || !slices.Equal(found[0].Command, want)) {
			t.Errorf("%s: found %v", tt.rule, found)
		}
	}
}

func TestLinesOfAService(t *testing.T) {
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
	socket := s.answer()
	if err := <-first; err != nil {
		t.Error(err)
	}
	socket.Close()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "its end is noticed", func() bool { return strings.Contains(s.log.String(), "has ended") })
	again := get(s, "local")
	waits("after it has ended", again)
	s.patience = time.Millisecond
	if err := <-get(s, "local"); err == nil || !strings.Contains(err.Error(), "is starting and does not answer yet") {
		t.Errorf("after the limit: %v", err)
	}
	s.answer()
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
	put := func(instance, outbound, memory, end string) {
		t.Helper()
		const metadata = "provider:\n  type: node\n  invoke: json\n  suitable: true\n  attributes: {name: {type: string}}\n"
		text := metadata + "  service: [" + s.list[0].Command[0] + ", up, local.yaml]\ninstance: " + instance + "\noutbound: " + outbound + "\nmemory: " + memory + "\n" + end
		answer := "settings:\n  instance: " + instance + "\n  outbound: " + outbound + "\n"
		if outbound == "perhaps" {
			answer = "settings: {problems: [{line: 8, message: outbound must be yes or no}]}\n"
		} else if end == "outdated" {
			answer += "  outdated: true\n"
		}
		for name, text := range map[string]string{"local.yaml": strings.TrimSuffix(text, "outdated"), "answer.yaml": answer} {
			if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "local.prov"), []byte("#!/bin/sh\ncat answer.yaml\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("stand-in", "no", "1", "")
	bed, err := OpenCompanion(t.Context(), s.dir, "local")
	if err != nil {
		t.Fatal(err)
	}
	s.list = []*Companion{bed}
	go s.start(t.Context())
	s.begun()
	socket := s.answer()
	<-s.started
	for _, tt := range []struct{ rule, instance, outbound, end, wrong string }{
		{"nothing", "stand-in", "no", "", ""},
		{"a comment", "stand-in", "no", "# more\n", ""},
		{"a mistake", "stand-in", "perhaps", "", "must be yes or no"},
		{"another instance", "other", "no", "", "its nodes would be lost; set it back"},
	} {
		put(tt.instance, tt.outbound, "1", tt.end)
		if list, err := s.changed(s.dir); len(list) > 0 || tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v, %v", tt.rule, list, err)
		}
	}
	put("stand-in", "yes", "2", "")
	list, err := s.changed(s.dir)
	if err != nil || len(list) != 1 || !list[0].own || !strings.HasSuffix(list[0].report().Text, "restarts with the new settings; its nodes and open logins continue; existing nodes get Internet access, too") {
		t.Fatalf("%v, %v", list, err)
	}
	socket.Close()
	restarted := make(chan struct{})
	go func() { s.restart(list[0]); close(restarted) }()
	wait.Until(t, "it is started again", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "starts"))
		return bytes.Count(text, []byte("x")) == 2
	})
	s.answer()
	<-restarted
	if list, err := s.changed(s.dir); err != nil || len(list) > 0 || !*s.list[0].Settings.Outbound {
		t.Errorf("afterwards: %v, %v", list, err)
	}

	s.handled[s.list[0]].own.Store(false) // pretend that another process runs it
	put("stand-in", "no", "2", "outdated")
	list, err = s.changed(s.dir)
	if err != nil || len(list) != 1 || list[0].own || !strings.Contains(list[0].report().Text, "when the service of the provider is restarted, by systemd or with: ") || !strings.Contains(list[0].report().Text, "; existing nodes lose Internet access, too") {
		t.Errorf("of another process: %v, %v", list, err)
	}
	put("stand-in", "no", "2", "")
	if list, err := s.changed(s.dir); err != nil || len(list) > 0 {
		t.Errorf("of another process, after a restart: %v, %v", list, err)
	}
}

// TestAServiceDoesNotFillTheLog runs a service with much output, which then ends.
func TestAServiceDoesNotFillTheLog(t *testing.T) {
	s := newStandIn(t, "seq 1 50000\n")
	s.retry = time.Hour
	s.start(t.Context())
	if n := strings.Count(s.log.String(), "\n"); n < 10 || n > 25_000 {
		t.Errorf("%d lines are logged", n)
	}
}

// TestDecisionsDoNotWaitForADescription looks up a provider, as decisions do, while a reload waits for the
// provider's description. The service of the provider has another command then.
func TestDecisionsDoNotWaitForADescription(t *testing.T) {
	s := newStandIn(t, "")
	const metadata = "provider:\n  type: node\n  invoke: json\n  suitable: true\n  attributes: {name: {type: string}}\n  service: [/bin/true, up]\n"
	if err := os.WriteFile(s.list[0].File, []byte(metadata), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "local.prov"), []byte("#!/bin/sh\n: >asked\nwhile [ ! -e answer ]; do sleep 0.02; done\necho 'settings: {}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	type result struct {
		list []changedCompanion
		err  error
	}
	done := make(chan result, 1)
	s.list[0].Settings.Instance, s.list[0].values = "", map[string]any{}
	s.handled[s.list[0]] = &handledCompanion{}
	s.handled[s.list[0]].own.Store(true)
	go func() { list, err := s.changed(s.dir); done <- result{list, err} }()
	wait.Until(t, "the provider is asked", func() bool { _, err := os.Stat(filepath.Join(s.dir, "asked")); return err == nil })
	s.awaitStart(func(string) (dryrun.Provider, bool) { return prompt{}, true })("local")
	if len(done) > 0 {
		t.Error("the decision has waited")
	}
	if err := os.WriteFile(filepath.Join(s.dir, "answer"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || len(r.list) != 1 || r.list[0].now.Command[0] != "/bin/true" {
		t.Errorf("changed: %v, %v", r.list, r.err)
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
	go func() { s.add([]*Companion{bed}); close(followed) }()
	pid := s.begun()
	s.answer()
	<-followed
	s.add([]*Companion{{Provider: bed.Provider}}) // it exists already
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
