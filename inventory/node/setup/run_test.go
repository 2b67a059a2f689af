package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

func TestMain(m *testing.M) {
	if os.Args[0] == Argv0 {
		dir := os.Getenv("SETUP_TEST")
		if err := runArgs(os.Args[1:], testFolders(dir)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testFolders are the folders of a node in a folder of the host.
func testFolders(dir string) folders {
	return folders{
		services: filepath.Join(dir, "lib/services"), logs: filepath.Join(dir, "log"), scripts: filepath.Join(dir, "lib/scripts"),
		artifacts: filepath.Join(dir, "lib/artifacts"), etc: filepath.Join(dir, "etc"), cloud: filepath.Join(dir, "cloud"),
		cloudInit: []string{filepath.Join(dir, "cloud-init")},
	}
}

// newNode returns a folder for testFolders with the accounts of a small image.
func newNode(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\n", "group": "root:x:0:\n", "shadow": "root:*:19000:0:99999:7:::\n", "gshadow": "root:*::\n",
	} {
		writeTestFile(t, filepath.Join(dir, "etc", name), text)
	}
	return dir
}

func writeTestFile(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// setupCommand returns the setup program as a node runs it.
func setupCommand(t *testing.T, dir string, words []string, in io.Reader) *exec.Cmd {
	t.Helper()
	require.Root(t)
	c := exec.Command("/proc/self/exe")
	c.Args = words
	c.Env = append(os.Environ(), "SETUP_TEST="+dir)
	c.Stdin = in
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// startStep runs the first attempt of step n and returns its first report.
func startStep(t *testing.T, dir string, n int, s Step) Report {
	t.Helper()
	r, _ := startAttempt(t, dir, n, Assignment{Step: s})
	return r
}

// startAttempt runs step n and returns its first report, and the process of the step.
func startAttempt(t *testing.T, dir string, n int, o Assignment) (Report, *exec.Cmd) {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	r, c := startWithInput(t, dir, n, string(order))
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return r, c
}

func startWithInput(t *testing.T, dir string, n int, order string) (Report, *exec.Cmd) {
	t.Helper()
	c := setupCommand(t, dir, RunArgs(n), strings.NewReader(order))
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := ReadReports(out, func(r Report) { got = r }); err != nil {
		t.Fatal(err)
	}
	return withoutTimes(t, got), c
}

// withoutTimes checks the times of a report.
func withoutTimes(t *testing.T, r Report) Report {
	t.Helper()
	isTime := func(at time.Time) bool {
		return time.Since(at) < time.Hour && at.Nanosecond() == 0 && at.Location() == time.UTC
	}
	if begun := r.State != Waiting; isTime(r.BeganAt) != begun && r.State != Running { // it may just begin
		t.Errorf("it began at %v: %+v", r.BeganAt, r)
	}
	if ended := r.Ended() && r.Message != Interrupted; isTime(r.EndedAt) != ended || ended && r.EndedAt.Before(r.BeganAt) {
		t.Errorf("it ended at %v: %+v", r.EndedAt, r)
	}
	r.BeganAt, r.EndedAt = time.Time{}, time.Time{}
	return r
}

// waitForStep waits for the end of step n.
func waitForStep(t *testing.T, dir string, n int) Report {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := setupCommand(t, dir, WaitArgs(n), r)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return lastReport(t, out)
}

func lastReport(t *testing.T, out []byte) (last Report) {
	t.Helper()
	if err := ReadReports(strings.NewReader(string(out)), func(r Report) { last = r }); err != nil {
		t.Fatal(err)
	}
	return withoutTimes(t, last)
}

func shellStep(command string) Step { return Step{Kind: Execute, Shell: "sh", Command: command} }

func TestExecute(t *testing.T) {
	dir := newNode(t)
	user, err := lookUpAccount(testFolders(dir).etc, "root")
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		rule string
		step Step
		want Report
	}{
		{"its output", shellStep("echo out; echo err >&2"), Report{State: Done, Output: "out\nerr\n"}},
		{"its status", shellStep("exit 7"), Report{State: Failed, Exit: 7, Message: "the command ended with status 7"}},
		{"a large status", shellStep("exit 200"), Report{State: Failed, Exit: 200, Message: "the command ended with status 200"}},
		{"a signal", shellStep("kill -9 $$"), Report{State: Failed, Exit: 137, Message: "the command was ended by signal 9 (killed)"}},
		{"one to its whole group", shellStep("kill -9 0"), Report{State: Failed, Exit: 137, Message: "the command was ended by signal 9 (killed)"}},
		{"bash", Step{Kind: Execute, Shell: "bash", Command: "a=(x y); echo ${a[1]} $0"}, Report{State: Done, Output: "y bash\n"}},
		{"nothing to read", shellStep("cat; echo end"), Report{State: Done, Output: "end\n"}},
		{"its environment", shellStep("env | grep -v '^PWD\\|^OLDPWD\\|^_=\\|^SHLVL' | sort; umask"), Report{State: Done,
			Output: "HOME=" + user.home + "\nLANG=C.UTF-8\nLOGNAME=root\nPATH=" + searchPath + "\nSHELL=" + user.shell + "\nUSER=root\n0022\n"}},
		{"the end of its output", shellStep("seq 1 10000"), Report{State: Done}},
		{"lines that are no text", shellStep(`printf '\377\000a'`), Report{State: Done, Output: "\uFFFD a"}},
	} {
		if r := startStep(t, dir, i+1, tt.step); r.State != Running {
			t.Fatalf("%s: %+v", tt.rule, r)
		}
		got := waitForStep(t, dir, i+1)
		if tt.rule == "the end of its output" {
			if len(got.Output) != MaxOutput || !strings.HasSuffix(got.Output, "9999\n10000\n") {
				t.Errorf("%s: %.60q", tt.rule, got.Output)
			}
			text, err := os.ReadFile(filepath.Join(dir, "log", fmt.Sprintf("%d-execute.log", i+1)))
			if err != nil || strings.Count(string(text), "\n") != 10000 {
				t.Errorf("its log has %d lines, %v", strings.Count(string(text), "\n"), err)
			}
			continue
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, got, tt.want)
		}
	}
}

// A started step is never started again, neither by concurrent calls nor after an interruption.
func TestStepRunsOnce(t *testing.T) {
	dir := newNode(t)
	count, over := filepath.Join(dir, "count"), filepath.Join(dir, "over")
	order, _ := json.Marshal(Assignment{Step: shellStep("echo once >>" + count + "; until test -e " + over + "; do sleep 0.01; done")})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			r, c := startWithInput(t, dir, 1, string(order))
			t.Cleanup(func() { c.Process.Kill(); c.Wait() })
			if r.State != Running {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	if err := os.WriteFile(over, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := waitForStep(t, dir, 1); r.State != Done {
		t.Errorf("%+v", r)
	}
	if r := startStep(t, dir, 1, shellStep("echo again >>"+count)); r.State != Done {
		t.Errorf("one that is done: %+v", r)
	}
	r, c := startWithInput(t, dir, 2, fmt.Sprintf(`{"kind":"execute","shell":"sh","command":"echo said; echo once >>%s; sleep 100"}`, count))
	if r.State != Running {
		t.Fatalf("%+v", r)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(count)
		log, _ := os.ReadFile(filepath.Join(dir, "log", "2-execute.log"))
		if strings.Count(string(text), "\n") == 2 && len(log) > 0 {
			break
		}
	}
	c.Process.Kill()
	c.Wait()
	interrupted := Report{State: Failed, Exit: 255, Message: Interrupted, Output: "said\n"}
	if r := waitForStep(t, dir, 2); r != interrupted {
		t.Errorf("%+v", r)
	}
	if r := startStep(t, dir, 2, shellStep("echo again >>"+count)); r != interrupted {
		t.Errorf("one that was interrupted: %+v", r)
	}
	if r := waitForStep(t, dir, 3); r.State != Waiting {
		t.Errorf("a step that was not started: %+v", r)
	}
	if text, _ := os.ReadFile(count); string(text) != "once\nonce\n" {
		t.Errorf("there is %q", text)
	}
}

// The step starts although its first report cannot be written, as when the testbed is killed at
// that moment. Its command gets the default action for SIGPIPE.
func TestStepContinuesWithoutReader(t *testing.T) {
	dir := newNode(t)
	order, err := json.Marshal(Assignment{Step: shellStep("trap | grep -c PIPE; yes | head -n 1")})
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	c := setupCommand(t, dir, RunArgs(1), strings.NewReader(string(order)))
	c.Stdout = w
	err = c.Run()
	w.Close()
	if err != nil {
		t.Error(err)
	}
	if got := waitForStep(t, dir, 1); got.State != Done || got.Output != "0\ny\n" {
		t.Errorf("%+v", got)
	}
}

// Invalid assignments start nothing, so a valid one can follow.
func TestInvalidAssignments(t *testing.T) {
	dir := newNode(t)
	for _, tt := range []struct{ rule, order string }{
		{"a cut one", `{"kind":"execute","shell":"sh","comm`},
		{"nothing", ""},
		{"one that is too long", `{"kind":"execute","shell":"sh","command":"` + strings.Repeat("x", maxAssignment) + `"}`},
		{"a wrong one", `{"kind":"execute","shell":"csh","command":"true"}`},
	} {
		c := setupCommand(t, dir, RunArgs(1), strings.NewReader(tt.order))
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("%s: %s", tt.rule, out)
		}
	}
	if r := startStep(t, dir, 1, shellStep("true")); r.State != Running {
		t.Errorf("%+v", r)
	}
	for _, words := range [][]string{{Argv0}, {Argv0, "run"}, {Argv0, "run", "0"}, {Argv0, "run", "../1"}, {Argv0, "stop", "1"}, {Argv0, "run", "1", "2"}} {
		if out, err := setupCommand(t, dir, words, strings.NewReader("")).CombinedOutput(); err == nil {
			t.Errorf("%q: %s", words, out)
		}
	}
}

// Background processes of a command neither delay it nor lose their output.
func TestBackgroundProcesses(t *testing.T) {
	dir := newNode(t)
	go1, go2 := filepath.Join(dir, "go1"), filepath.Join(dir, "go2")
	startStep(t, dir, 1, shellStep(fmt.Sprintf("(while ! test -e %s; do sleep 0.01; done; echo later; touch %s) & echo now", go1, go2)))
	if r := waitForStep(t, dir, 1); r != (Report{State: Done, Output: "now\n"}) {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(go1, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// The log and the disk are written independently.
	log, err := "", os.ErrNotExist
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && (err != nil || log != "now\nlater\n"); time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "log", "1-execute.log"))
		log = string(text)
		_, err = os.Stat(go2)
	}
	if log != "now\nlater\n" {
		t.Errorf("its log is %q", log)
	}
	if err != nil {
		t.Error("it was ended by its own words")
	}
}

func TestInstallsInSequence(t *testing.T) {
	dir := newNode(t)
	to := filepath.Join(dir, "to")
	for i, tt := range []struct {
		step Step
		want Report
	}{
		{Step{Kind: Install, URL: "data:,hello", InstallPath: to}, Report{State: Done}},
		{Step{Kind: Install, URL: "data:,hello", InstallPath: to, FileType: "zip"}, Report{State: Failed, Exit: 1, Message: "it cannot be read as a zip archive: zip: not a valid zip file"}},
	} {
		startStep(t, dir, i+1, tt.step)
		got := waitForStep(t, dir, i+1)
		lines := strings.Split(got.Output, "\n")
		for j, begin := range []string{"fetching data:,hello", "fetched 5 bytes; installing as "} {
			at, text, _ := strings.Cut(lines[j], "Z ")
			if _, err := time.Parse(time.DateTime, at); err != nil || !strings.HasPrefix(text, begin) || j == 0 && text != begin {
				t.Errorf("line %d is %q, %v", j+1, lines[j], err)
			}
		}
		if got.Output = ""; got != tt.want {
			t.Errorf("%+v, want %+v", got, tt.want)
		}
	}
	if got := listTree(t, to); got != "-rw-r--r-- install-1 \"hello\"\n" {
		t.Errorf("there is\n%s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "lib/services/*.part")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestLogIsBounded(t *testing.T) {
	require.Root(t)
	dir := newNode(t)
	path := filepath.Join(dir, "log", "1-execute.log")
	l, err := openLog(filepath.Dir(path), path, account{gid: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	part := []byte(strings.Repeat("x", 1<<20-1))
	for range 12 {
		if n, err := l.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	fmt.Fprint(l, "the end")
	st, err := os.Stat(path)
	if err != nil || st.Size() < maxLog || st.Size() > maxLog+100 || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "is left out") != 1 {
		t.Errorf("there is no note, %v", err)
	}
	if got := l.end(); len(got) != MaxOutput || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("its end is %.40q", got)
	}
}
