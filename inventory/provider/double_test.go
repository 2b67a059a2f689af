package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// The test binary is also the tested provider: a link to it, NAME.prov, called with
// ral_action=…, behaves as NAME.double describes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "ral_action=") {
		runDouble()
		return
	}
	os.Exit(require.NoLeaks(m))
}

// double describes how the provider behaves.
type double struct {
	Stdout, Stderr string
	Exit           int
	Signal         bool   // ends by a signal
	Flood          int    // bytes of blanks to write
	Raw            []byte // written after Stdout
	Hang           bool
	Child          string // "group" or "session": leaves a process behind that holds its streams
}

// doubleCall is the input of one call, a line in NAME.seen.
type doubleCall struct {
	Args  []string
	Stdin string
	Env   []string
	Dir   string
}

func runDouble() {
	stem := strings.TrimSuffix(os.Args[0], Suffix)
	in, _ := io.ReadAll(os.Stdin)
	dir, _ := os.Getwd()
	line, _ := json.Marshal(doubleCall{os.Args[1:], string(in), os.Environ(), dir})
	f, err := os.OpenFile(stem+".seen", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	f.Write(append(line, '\n'))
	f.Close()
	text, err := os.ReadFile(stem + ".double")
	if err != nil {
		panic(err)
	}
	var d double
	if err := json.Unmarshal(text, &d); err != nil {
		panic(err)
	}
	if d.Child != "" {
		c := exec.Command("/bin/sleep", "300")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: d.Child == "session"}
		if err := c.Start(); err != nil {
			panic(err)
		}
		pid, _ := json.Marshal(c.Process.Pid)
		os.WriteFile(stem+".child", pid, 0o600)
	}
	io.WriteString(os.Stderr, d.Stderr)
	io.WriteString(os.Stdout, d.Stdout)
	os.Stdout.Write(d.Raw)
	os.Stdout.Write(bytes.Repeat([]byte{' '}, d.Flood))
	if d.Hang {
		time.Sleep(time.Hour)
	}
	if d.Signal {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	syscall.Exit(d.Exit) // os.Exit would wait a second for the race detector
}

const nodeMetadata = `
provider:
  type: node
  invoke: json
  suitable: true
  attributes:
    name: {type: string}
    ensure: {type: "enum[present,absent]"}
    cpu: {type: string}
    image: {type: string}
    fast: {type: boolean}
    users: {type: "array[string]"}
    interfaces: {type: "array[string]"}
    setup: {type: "array[string]", kind: w}
    state: {type: "enum[pending,changing,ready,failed]", kind: r}
`

// installDouble creates a provider in dir: the link, its behaviour, and its companion
// file unless that is empty.
func installDouble(t *testing.T, dir, name, companion string, d double) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	setBehaviour(t, dir, name, d)
	if companion != "" {
		write(t, filepath.Join(dir, name+".yaml"), companion, 0o644)
	}
	if err := os.Symlink(self, filepath.Join(dir, name+Suffix)); err != nil {
		t.Fatal(err)
	}
}

func setBehaviour(t *testing.T, dir, name string, d double) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".double"), string(text), 0o644)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // independent of the umask
		t.Fatal(err)
	}
}

// open returns a provider that behaves like d.
func open(t *testing.T, metadata string, d double) *Provider {
	t.Helper()
	dir := t.TempDir()
	installDouble(t, dir, "double", metadata, d)
	p, err := Open(filepath.Join(dir, "double.prov"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// openAnswering returns a provider of nodes that always gives this answer.
func openAnswering(t *testing.T, stdout string) *Provider {
	t.Helper()
	return open(t, nodeMetadata, double{Stdout: stdout})
}

// calls returns the calls of the provider so far.
func calls(t *testing.T, p *Provider) []doubleCall {
	t.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(p.Path, Suffix) + ".seen")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []doubleCall
	for line := range bytes.Lines(text) {
		var s doubleCall
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// memory is a log handler that keeps level and text.
type memory struct{ got *[]string }

func (m memory) Enabled(context.Context, slog.Level) bool { return true }
func (m memory) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m memory) WithGroup(string) slog.Handler            { return m }
func (m memory) Handle(_ context.Context, r slog.Record) error {
	*m.got = append(*m.got, r.Level.String()+" "+r.Message)
	return nil
}
