package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/executable"
)

func quick(set string) string {
	return strings.Replace(nodeMetadata, "type: node", "type: node\n  timeouts: {set: "+set+", get: "+set+"}", 1)
}

// childOf returns the process that the provider left behind.
func childOf(t *testing.T, p *Provider) int {
	t.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(p.Path, Suffix) + ".child")
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := json.Unmarshal(text, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether pid still runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after == "" || after[0] != 'Z' && after[0] != 'X'
}

func waitDead(pid int) bool {
	for range 3000 {
		if !alive(pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestTimeLimitEndsTheWholeGroup(t *testing.T) {
	p := open(t, quick("1500ms"), double{Hang: true, Child: "group"})
	_, err := p.Set(t.Context(), update, false)
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, context.DeadlineExceeded) || !e.Temporary || e.Kind != Failed {
		t.Errorf("Set: %v, want the time limit", err)
	} else if !strings.Contains(e.Detail(), "did not end within 1.5s") {
		t.Errorf("operators read %q, not how long it had", e.Detail())
	}
	if pid := childOf(t, p); !waitDead(pid) {
		t.Errorf("process %d outlived the call", pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestCancelledCall(t *testing.T) {
	p := open(t, nodeMetadata, double{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := p.Get(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v, want canceled", err)
	}
}

func TestEndedReportsErrorOfCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      double
		cancel bool
		want   string // "" for a call that did not fail
		calls  int
	}{
		{"UsableAnswer", double{Stdout: `{"resources": []}`}, false, "", 1},
		{"ErrorOfOneResource", double{Stdout: `{"resources": [{"name": "a", "error": {"message": "no"}}]}`}, false, "", 1},
		{"ErrorOfTheCall", double{Stdout: `{"error": {"message": "the rack is off"}}`}, false, "the rack is off", 1},
		{"NoJSON", double{Stdout: `hello`}, false, "is not working properly", 1},
		{"TimeOver", double{Hang: true}, false, "did not answer in time", 1},
		{"Cancelled", double{Hang: true}, true, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, quick("300ms"), c.d)
			var errs []error
			p.Ended = func(action string, took time.Duration, err error) {
				if action != "get" || took <= 0 {
					t.Errorf("%s took %v", action, took)
				}
				errs = append(errs, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel {
				cancel()
			}
			p.Get(ctx, []string{"a"})
			if len(errs) != c.calls || c.calls == 1 && (errs[0] == nil) != (c.want == "") || c.want != "" && !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("reported %v, want %q", errs, c.want)
			}
		})
	}
}

func TestDetachedProcessDoesNotDelayCall(t *testing.T) {
	p := open(t, nodeMetadata, double{Stdout: `{"resources":[{"name":"a"}]}`, Child: "session"})
	var logged []string
	p.Log = slog.New(memory{&logged})
	got, err := p.Get(t.Context(), nil)
	pid := childOf(t, p)
	defer syscall.Kill(pid, syscall.SIGKILL)
	if err != nil || len(got) != 1 {
		t.Errorf("Get = %v, %v; want the answer", got, err)
	}
	if !alive(pid) {
		t.Error("a process with a session of its own did not outlive the call")
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "left a process behind") {
		t.Errorf("logged %q, want one warning", logged)
	}
}

// slowLog delays the first line, like a busy disk.
type slowLog struct {
	memory
	first *sync.Once
}

func (l slowLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l slowLog) Handle(ctx context.Context, r slog.Record) error {
	l.first.Do(func() { time.Sleep(3 * executable.DrainTimeout) })
	return l.memory.Handle(ctx, r)
}

// TestSlowLogLosesNoOutput checks that a slow log loses no output of a provider, and that the call
// succeeds.
func TestSlowLogLosesNoOutput(t *testing.T) {
	p := open(t, nodeMetadata, double{Stdout: `{"resources":[]}`, Stderr: strings.Repeat("info: a line"+strings.Repeat(" and more", 5)+"\n", 900) + "info: the last\n"})
	var logged []string
	p.Log = slog.New(slowLog{memory{&logged}, new(sync.Once)})
	if _, err := p.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if len(logged) != 901 || logged[900] != "INFO the last" {
		t.Errorf("of 901 lines %d were logged, the last is %q", len(logged), logged[len(logged)-1])
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	open1 := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs /proc")
		}
		return len(entries)
	}
	good := openAnswering(t, `{"resources":[]}`)
	bad := open(t, nodeMetadata, double{Flood: 17 << 20})
	slow := open(t, quick("30ms"), double{Hang: true})
	broken := openAnswering(t, "")
	if err := os.Remove(broken.Path); err != nil {
		t.Fatal(err)
	}
	var before int
	for i := range 4 {
		for _, p := range []*Provider{good, bad, slow, broken} {
			_, err := p.Get(t.Context(), nil)
			if (err == nil) != (p == good) {
				t.Fatalf("Get: %v", err)
			}
		}
		if i == 0 {
			before = open1() // after the runtime has opened what it keeps
		}
	}
	if after := open1(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestErrorsHidePath(t *testing.T) {
	p := openAnswering(t, "")
	if err := os.Remove(p.Path); err != nil {
		t.Fatal(err)
	}
	_, err := p.Get(t.Context(), nil)
	if err == nil || strings.Contains(err.Error(), "/") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Get without an executable: %v, want a reason that names no file", err)
	}
}

func TestErrorNamesMissingInterpreter(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"no such interpreter", "#!/nowhere/pyhton3\n", `the interpreter in its first line, "#!/nowhere/pyhton3", does not exist`},
		{"env finds none", "#!/usr/bin/env pyhton3\n", "exit status 127, so its answer is ignored; 127 means that a program was not found"},
		{"carriage return", "#!/bin/sh\r\nexit 0\r\n", `"#!/bin/sh\r"`},
		{"a folder", "#! /\n", `"#! /"`},
		{"no first line", "echo hello\n", "begin it with a line such as #!/bin/sh"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/x.prov", tt.text, 0o755)
			if _, err := Open(dir+"/x.prov", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestErrorNamesWrongMode(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/x.yaml", nodeMetadata, 0o644)
	write(t, dir+"/x.prov", "#!/bin/sh\necho '{\"resources\":[]}'\n", 0o755)
	var log bytes.Buffer
	p, err := Open(dir+"/x.prov", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), nil); err == nil {
		t.Error("a file that is not executable is started")
	}
	if said := log.String(); !strings.Contains(said, "cannot be started: permission denied: it is not executable; chmod +x it") || strings.Contains(said, "first line") {
		t.Errorf("the log says %q", said)
	}
}

// TestDryRunHasItsOwnPlace checks that a dry run that hangs delays other dry runs but no set, and
// that no dry run starts without a place.
func TestDryRunHasItsOwnPlace(t *testing.T) {
	p := open(t, nodeMetadata, double{Hang: true}) // parallel is 1
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	for _, noop := range []bool{true, false} {
		hanging.Go(func() {
			if _, err := p.Set(ctx, update, noop); err == nil || errors.Is(err, ErrNoPlace) {
				t.Errorf("noop %v: %v, want it to be interrupted", noop, err)
			}
		})
	}
	for range 3000 {
		if len(calls(t, p)) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, noop := range []bool{true, false} {
		short, end := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := p.Set(short, update, noop)
		end()
		if !errors.Is(err, ErrNoPlace) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "is busy with other requests") {
			t.Errorf("noop %v, one more: %v, want ErrNoPlace", noop, err)
		}
	}
	cancel()
	hanging.Wait()
	if n := len(calls(t, p)); n != 2 {
		t.Errorf("%d calls, want one dry run and one set", n)
	}
}

// TestEndingThreadKillsNoProvider ends the thread that started a provider, which must survive. The
// kernel would send it the parent-death signal, and a goroutine that ends with its thread locked
// ends that thread.
func TestEndingThreadKillsNoProvider(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/x.yaml", nodeMetadata, 0o644)
	write(t, dir+"/x.prov", "#!/bin/sh\necho > begun.$$\nread go < go\necho '{\"resources\":[]}'\n", 0o755)
	if err := syscall.Mkfifo(dir+"/go", 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(dir+"/x.prov", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const runs = 16
	begun := 0
	for range 8 {
		var running sync.WaitGroup
		for range runs {
			running.Go(func() {
				if _, err := p.Get(t.Context(), nil); err != nil {
					t.Errorf("Get while threads end: %v", err)
				}
			})
		}
		begun += runs
		for n := 0; n < begun && !t.Failed(); {
			all, err := filepath.Glob(dir + "/begun.*")
			if err != nil {
				t.Fatal(err)
			}
			n = len(all)
			endThreads()
		}
		w, err := os.OpenFile(dir+"/go", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(strings.Repeat("\n", runs)); err != nil {
			t.Fatal(err)
		}
		running.Wait()
		w.Close()
		if t.Failed() {
			return
		}
	}
}

// endThreads ends many threads of this process, idle ones first.
func endThreads() {
	var ending sync.WaitGroup
	all := make(chan struct{})
	const threads = 64
	var ready sync.WaitGroup
	ready.Add(threads)
	for range threads {
		ending.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-all
		})
	}
	ready.Wait()
	close(all)
	ending.Wait()
}
