package setup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// endStep ends step n and returns its report.
func endStep(t *testing.T, dir string, n int) Report {
	t.Helper()
	out, err := setupCommand(t, dir, EndArgs(n), nil).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return lastReport(t, out)
}

// A larger attempt begins a step anew. An equal or smaller one only reports.
func TestAttempts(t *testing.T) {
	dir := newNode(t)
	count := filepath.Join(dir, "count")
	step := shellStep("echo x >>" + count + "; wc -l <" + count + "; exit 1")
	result := func(attempt int) Report {
		return Report{State: Failed, Attempt: attempt, Exit: 1, Message: "the command ended with status 1", Output: fmt.Sprintln(attempt + 1)}
	}
	for attempt := range 3 {
		for again := range 3 {
			r, _ := startAttempt(t, dir, 1, Assignment{Step: step, Attempt: attempt})
			want := Report{State: Running, Attempt: attempt}
			if again > 0 {
				want = result(attempt)
			}
			if r != want {
				t.Fatalf("attempt %d, call %d: %+v, want %+v", attempt, again, r, want)
			}
			if r := waitForStep(t, dir, 1); r != result(attempt) {
				t.Errorf("attempt %d: %+v", attempt, r)
			}
		}
	}
	if r, _ := startAttempt(t, dir, 1, Assignment{Step: step, Attempt: 1}); r != result(2) {
		t.Errorf("an earlier attempt: %+v", r)
	}
}

// A running attempt is not replaced by a later one.
func TestAttemptWhileAnotherRuns(t *testing.T) {
	dir := newNode(t)
	startStep(t, dir, 1, shellStep("sleep 1000"))
	if r, _ := startAttempt(t, dir, 1, Assignment{Step: shellStep("true")}); r.State != Running || r.Attempt != 0 {
		t.Errorf("the same attempt: %+v", r)
	}
	c := setupCommand(t, dir, RunArgs(1), strings.NewReader(`{"kind":"execute","shell":"sh","command":"true","attempt":1}`))
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "attempt 0 of step 1 still runs") {
		t.Errorf("a later attempt: %v, %s", err, out)
	}
	if r := endStep(t, dir, 1); r.Message != EndedEarly {
		t.Errorf("%+v", r)
	}
	if r, _ := startAttempt(t, dir, 1, Assignment{Step: shellStep("true"), Attempt: 1}); r.State != Running || r.Attempt != 1 {
		t.Errorf("a later attempt after the end: %+v", r)
	}
}

// After a kill at any moment, an attempt has run at most once, and its saved result stays. The
// next attempt runs.
func TestKilledAttempts(t *testing.T) {
	dir := newNode(t)
	for n := 1; n <= require.Rounds(8, 20); n++ {
		count := filepath.Join(dir, fmt.Sprint("count", n))
		runs := func() int {
			text, _ := os.ReadFile(count)
			return strings.Count(string(text), "x")
		}
		input := func(attempt int) *strings.Reader {
			return strings.NewReader(fmt.Sprintf(`{"kind":"execute","shell":"sh","command":"echo x >>%s","attempt":%d}`, count, attempt))
		}
		c := setupCommand(t, dir, RunArgs(n), input(1))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(n)*time.Millisecond, func() { c.Process.Kill() })
		c.Wait()
		before := waitForStep(t, dir, n)
		if before.State == Waiting && runs() > 0 {
			t.Fatalf("step %d waits, and ran", n)
		}
		if before.State != Waiting {
			if r, _ := startAttempt(t, dir, n, Assignment{Step: shellStep("echo x >>" + count), Attempt: 1}); r != before || runs() > 1 {
				t.Fatalf("step %d ran %d times: %+v, before %+v", n, runs(), r, before)
			}
		}
		ran := runs()
		startAttempt(t, dir, n, Assignment{Step: shellStep("echo x >>" + count), Attempt: 2})
		if r := waitForStep(t, dir, n); r != (Report{State: Done, Attempt: 2}) || runs() != ran+1 {
			t.Errorf("step %d: %+v, %d runs, before %d", n, r, runs(), ran)
		}
	}
}

// A saved result of an earlier attempt is not that of the next one.
func TestStaleResult(t *testing.T) {
	dir := newNode(t)
	startStep(t, dir, 1, shellStep("true"))
	waitForStep(t, dir, 1)
	began := filepath.Join(dir, "lib/services/1.began")
	if err := os.WriteFile(began, []byte(`{"attempt":1,"at":"`+time.Now().UTC().Format(time.RFC3339)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := waitForStep(t, dir, 1); r != (Report{State: Failed, Attempt: 1, Exit: 255, Message: Interrupted}) {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(began, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := setupCommand(t, dir, RunArgs(1), strings.NewReader(`{"kind":"execute","shell":"sh","command":"touch `+dir+`/ran","attempt":5}`))
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "its result is unknown") {
		t.Errorf("a damaged file: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a step ran although it is unknown whether it has begun")
	}
}

func TestEnd(t *testing.T) {
	dir := newNode(t)
	if r := endStep(t, dir, 1); r.State != Waiting {
		t.Errorf("a step that has not begun: %+v", r)
	}
	pids := filepath.Join(dir, "pids")
	startStep(t, dir, 1, shellStep("sleep 1000 & echo $! >"+pids+"; (trap '' TERM HUP INT; echo $BASHPID; sleep 1000) & echo said; sleep 1000 & echo $! >>"+pids+"; touch "+dir+"/ready; wait"))
	wait.Until(t, "the command does not run", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
	wait.Until(t, "its output is not logged", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "log", "1-execute.log"))
		return strings.Contains(string(text), "said")
	})
	want := Report{State: Failed, Exit: 255, Message: EndedEarly}
	got := endStep(t, dir, 1)
	if !strings.Contains(got.Output, "said\n") {
		t.Errorf("its output is %q", got.Output)
	}
	if got.Output = ""; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	text, _ := os.ReadFile(pids)
	for _, pid := range strings.Fields(string(text)) {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("it left the process %s", stat)
		}
	}
	if r := endStep(t, dir, 1); r.Message != EndedEarly {
		t.Errorf("ended again: %+v", r)
	}
	if r := startStep(t, dir, 1, shellStep("true")); r.Message != EndedEarly {
		t.Errorf("the same attempt again: %+v", r)
	}
	startStep(t, dir, 2, shellStep("echo result; exit 3"))
	ended := waitForStep(t, dir, 2)
	if r := endStep(t, dir, 2); r != ended || r.Exit != 3 {
		t.Errorf("a step that has ended: %+v, was %+v", r, ended)
	}
}

// An install ends while it waits for a server. The next attempt installs.
func TestEndOfInstall(t *testing.T) {
	dir := newNode(t)
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	to := filepath.Join(dir, "to")
	startStep(t, dir, 1, Step{Kind: Install, URL: server.URL + "/file", InstallPath: to})
	<-asked
	if r := endStep(t, dir, 1); r.Message != EndedEarly || !strings.Contains(r.Output, "fetching http://") {
		t.Errorf("%+v", r)
	}
	if r := runStep(t, dir, 1, Assignment{Attempt: 1, Step: Step{Kind: Install, URL: "data:,x", InstallPath: to}}); r.State != Done {
		t.Errorf("%+v", r)
	}
}

// Processes in the background of a step that has ended are not ended.
func TestEndKeepsBackgroundProcesses(t *testing.T) {
	dir := newNode(t)
	startStep(t, dir, 1, shellStep("(until test -e "+dir+"/go; do sleep 0.01; done; touch "+dir+"/end) &"))
	before := waitForStep(t, dir, 1)
	if r := endStep(t, dir, 1); r != before || r.State != Done {
		t.Errorf("%+v, was %+v", r, before)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the process in the background was ended", func() bool { _, err := os.Stat(filepath.Join(dir, "end")); return err == nil })
}

func TestParseStat(t *testing.T) {
	for _, tt := range []struct {
		rule, text string
		want       process
		ok         bool
	}{
		{"a name", "7 (sh) S 3 7 5 0 -1", process{7, 3, 5, 'S'}, true},
		{"a name like other fields", "7 (a) Z 1 1 1 (b) T 3 7 5 0 -1", process{7, 3, 5, 'T'}, true},
		{"a cut line", "7 (sh) S 3 7", process{}, false},
		{"nothing", "", process{}, false},
	} {
		if got, ok := parseStat(7, []byte(tt.text)); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: %+v, %v", tt.rule, got, ok)
		}
	}
}
