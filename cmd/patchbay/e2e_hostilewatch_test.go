package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resources are the resources that a process uses, measured from outside.
type resources struct {
	descriptors, threads, goroutines, sessions, children int
	resident                                             int // kB
}

func (v resources) String() string {
	return fmt.Sprintf("%d descriptors, %d threads, %d goroutines, %d TLS sessions, %d children, %d MB resident",
		v.descriptors, v.threads, v.goroutines, v.sessions, v.children, v.resident>>10)
}

// resourceWatch measures the resources of the server.
type resourceWatch struct {
	s       *hostileTest
	first   resources
	settled []resources
	logged  int // bytes of the log already checked
}

func (w *resourceWatch) measure(t *testing.T) (v resources) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", w.s.cmd.Process.Pid)
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	v.descriptors = len(open)
	for line := range strings.Lines(readFile(t, proc+"/status")) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			v.resident = n
		case "Threads":
			v.threads = n
		}
	}
	tasks, _ := filepath.Glob(proc + "/task/*/children")
	for _, file := range tasks {
		b, _ := os.ReadFile(file) // the thread may have ended
		v.children += len(bytes.Fields(b))
	}
	v.goroutines, v.sessions = -1, -1
	_, metrics := get(t, w.s.admin+"/metrics")
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "go_goroutines":
			v.goroutines = int(n)
		case "patchbay_tls_connections":
			v.sessions = int(n)
		}
	}
	if v.goroutines < 0 || v.sessions < 0 {
		t.Fatal("the metrics do not tell of goroutines or of TLS sessions")
	}
	return v
}

// awaitIdle waits until all connections and tasks have ended.
func (w *resourceWatch) awaitIdle(t *testing.T, when string) {
	t.Helper()
	w.s.good.http.CloseIdleConnections()
	w.s.bad.http.CloseIdleConnections()
	first := len(w.settled) == 0
	var v resources
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		v = w.measure(t)
		// The connection for the metrics has goroutines too.
		if v.sessions == 0 && v.children == 0 && (first || v.descriptors <= w.first.descriptors+8 && v.goroutines <= w.first.goroutines+8) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s the server keeps %v; at first it had %v", when, v, w.first)
		}
	}
	if first {
		w.first = v
	}
	w.settled = append(w.settled, v)
	t.Logf("%s: %v", when, v)
}

// wantNoGrowth fails if the second round uses more than the first. Go returns free memory
// to the system with the next garbage collection, in an idle process every two minutes.
func (w *resourceWatch) wantNoGrowth(t *testing.T) {
	t.Helper()
	const slack = 32 << 10 // kB
	one, two := w.settled[1], w.settled[2]
	limit := one.resident*13/10 + slack
	for end := time.Now().Add(3 * time.Minute); two.resident > limit && time.Now().Before(end); time.Sleep(time.Second) {
		two = w.measure(t)
	}
	if two.resident > limit {
		t.Errorf("%d MB are resident after the second round, more than %d MB: after the first it were %d MB", two.resident>>10, limit>>10, one.resident>>10)
	}
	// The runtime keeps as many threads as were ever in C at once, more on a busy host. A
	// leak would be one thread for each of thousands of connections.
	if two.threads > one.threads+128 {
		t.Errorf("%d threads after the second round, %d after the first", two.threads, one.threads)
	}
}

// injectionMark begins a line that only a hostile document could write into the log.
const injectionMark = "INJECTED"

// checkLog checks the new lines of the log: the server has written every one, and none is
// too long.
func (w *resourceWatch) checkLog(t *testing.T) {
	t.Helper()
	const longest = 64 << 10
	f, err := os.Open(w.s.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(int64(w.logged), 0); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		w.logged += len(line)
		if len(line) > longest {
			t.Errorf("a line of %d bytes in the log: %.300q …", len(line), line)
		}
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("time=")) && !bytes.HasPrefix(line, []byte("goroutine ")) {
			t.Errorf("a line in the log that is not the server's own: %.300q", line)
		}
		if err != nil {
			return
		}
	}
}
