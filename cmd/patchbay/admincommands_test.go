package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"patchbay/am/follow/audit"
	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// socketPath returns the path of a site's socket through the descriptor of its folder,
// since the kernel accepts at most 107 bytes.
func socketPath(t testing.TB, dir string) string {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return fmt.Sprintf("/proc/self/fd/%d/admin.sock", f.Fd())
}

// serveSocket creates a site and answers the requests to its socket with f.
func serveSocket(t *testing.T, f func(r *http.Request, c net.Conn)) (dir string) {
	t.Helper()
	dir = program.NewSite(t)
	l, err := net.Listen("unix", socketPath(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				f(r, c)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return dir
}

// TestCommandsWithoutAnswerAreInDoubt proves that a command without an answer reports
// that the server may have done it, and how to find out. A query without an answer has
// changed nothing.
func TestCommandsWithoutAnswerAreInDoubt(t *testing.T) {
	t.Parallel()
	const doubt = "It may have carried out the order, or may do so later: before you repeat it, check with: "
	var answer atomic.Pointer[func(net.Conn)]
	dir := serveSocket(t, func(r *http.Request, c net.Conn) {
		io.Copy(io.Discard, r.Body)
		(*answer.Load())(c)
	})
	for _, tt := range []struct {
		rule   string
		answer func(c net.Conn)
		want   string
	}{
		{"it goes without an answer", func(net.Conn) {}, "it ended before it answered"},
		{"its answer breaks off", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") }, "it ended before it answered"},
		{"its answer makes no sense", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{") }, "the answer of the served site cannot be read"},
	} {
		answer.Store(&tt.answer)
		for _, args := range [][]string{
			{"release", "first"}, {"renew", "first", "--for", "1h"}, {"thaw", "first"}, {"reload"}, {"release", "--orphans", "x"},
		} {
			code, out := runCommand(t, append(args, "--config", dir)...)
			if code != 1 || !strings.Contains(out, doubt) || !strings.Contains(out, "journal --since 10m --config "+dir) || !strings.Contains(out, tt.want) || strings.Contains(out, "or root") {
				t.Errorf("%s: %q: %d %s", tt.rule, args, code, out)
			}
		}
		for _, args := range [][]string{{"slivers"}, {"nodes", "--orphans"}} {
			if code, out := runCommand(t, append(args, "--config", dir)...); code != 1 || strings.Contains(out, "may have been done") {
				t.Errorf("%s: %q: %d %s", tt.rule, args, code, out)
			}
		}
	}
}

// TestInterruptedCommandsReportDoubt interrupts a command after the server has received
// it.
func TestInterruptedCommandsReportDoubt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	dir := serveSocket(t, func(r *http.Request, c net.Conn) {
		if r.URL.Path == "/release" {
			interrupt()
			io.Copy(io.Discard, c) // until the client closes the connection
		}
	})
	var out bytes.Buffer
	if code := run(ctx, []string{"release", "first", "--config", dir}, command.Console{Out: &out, Err: &out}); code != 1 {
		t.Errorf("exit status %d", code)
	}
	program.WantTexts(t, out.String(), "the command ended before the answer", "It may have carried out the order")
}

// TestOutputThatCannotBeWritten proves that a full disk is reported as such, with and
// without a running server.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full: ", err)
	}
	defer full.Close()
	served := serveSocket(t, func(r *http.Request, c net.Conn) {
		row := `{"urn":"urn:publicid:IDN+example.org+slice+first","slivers":0,"created":"2030-01-01T00:00:00Z"}` + "\n"
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+row)
	})
	for where, dir := range map[string]string{"served": served, "not served": newSiteWithSlivers(t)} {
		for _, args := range [][]string{{"slices", "--json"}, {"slices"}, {"slivers", "--json"}} {
			var out bytes.Buffer
			code := run(t.Context(), append(args, "--config", dir), command.Console{Out: full, Err: &out})
			if code != 1 || !strings.Contains(out.String(), "not all of its output can be written: write /dev/full: no space left on device") || strings.Contains(out.String(), "broke off") {
				t.Errorf("%s: %q: %d %s", where, args, code, out.String())
			}
		}
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"release", "first", "--config", newSiteWithSlivers(t)}, command.Console{Out: full, Err: &out}); code != 1 || !strings.Contains(out.String(), "the command has ended, but") {
		t.Errorf("release: %d %s", code, out.String())
	}
}

func TestOperatorCommandsAreAudited(t *testing.T) {
	dir := program.NewSite(t)
	for _, args := range [][]string{
		{"lockdown", "--reason", "new disks"}, {"lockdown"}, {"lockdown", "--lift"}, {"lockdown", "--lift"},
		{"maintenance", "pc1", "--from", "1h", "--until", "2h", "--reason", "swap"}, {"maintenance"}, {"maintenance", "--lift", "1"},
	} {
		if code, out := runCommand(t, append(args, "--config", dir)...); code != 0 {
			t.Fatal(args, out)
		}
	}
	var got []string
	for line := range strings.Lines(program.ReadFile(t, filepath.Join(dir, "audit.log"))) {
		var l audit.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Operator != audit.Operator() {
			t.Errorf("%s was done by %q", l.What, l.Operator)
		}
		text, _, _ := strings.Cut(l.Text, ",")
		got = append(got, l.What+": "+text)
	}
	if want := []string{"lockdown: new disks", "lockdown lifted: ", "maintenance: pc1", "maintenance lifted: pc1"}; !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
}
