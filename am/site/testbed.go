package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/fileowner"
	"patchbay/am/supervisor"
	"patchbay/inventory"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
)

// Testbed is a provider whose nodes are containers of this host. A program that runs as
// root creates them.
type Testbed struct {
	Provider string // its name
	Program  string // the path of patchbay-local
	Settings string // the path of NAME.yaml
	Instance string
	Outbound bool     // its nodes reach the outside network
	Shared   []string // the shared VLANs that it allows
	Ports    int      // the maximum number of nodes with a login port; 0 if nodes need none
	settings local.Settings
}

// Command returns the command that starts the testbed.
func (t *Testbed) Command() []string { return []string{t.Program, "up", t.Settings} }

// trustedCommand returns the command for a server that runs as root. If the site belongs to another
// user, that user could name any program. Then the command runs the patchbay-local in the folder of
// this server's own program.
func (t *Testbed) trustedCommand() ([]string, error) {
	uid, _, another, err := fileowner.Other(filepath.Dir(t.Settings))
	if err != nil || !another {
		return t.Command(), err
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, err
	}
	trusted := *t
	trusted.Program = filepath.Join(filepath.Dir(self), "patchbay-local")
	if _, err := os.Stat(trusted.Program); err != nil {
		return nil, fmt.Errorf("the site belongs to user %d, so root starts only the patchbay-local beside its own program, and that one is missing (%w); install it there, or start the testbed yourself: %s", uid, err, display.AsRoot(t.Command()...))
	}
	return trusted.Command(), nil
}

func providersOf(inv *inventory.Inventory) map[string]bool {
	used := make(map[string]bool)
	for _, c := range inv.Components {
		used[c.Provider] = true
	}
	return used
}

// findTestbeds leaves out a testbed with wrong settings, because the testbed's provider reports
// that error.
func findTestbeds(dir string, names map[string]bool) []*Testbed {
	var found []*Testbed
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t, err := OpenTestbed(dir, name); t != nil && err == nil {
			found = append(found, t)
		}
	}
	return found
}

// OpenTestbed returns the local testbed of a provider, or nil if the provider is of another
// kind. It fails if the testbed's settings cannot be read, and returns the testbed
// nevertheless.
func OpenTestbed(dir, name string) (*Testbed, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, nil
	}
	program, ok := testbedProgram(filepath.Join(dir, name+provider.Suffix), name)
	if !ok {
		return nil, nil
	}
	t := &Testbed{Provider: name, Program: program, Settings: filepath.Join(dir, name+".yaml")}
	s, err := local.ReadSettings(t.Settings)
	t.Instance, t.Outbound, t.Shared, t.Ports, t.settings = s.Instance, s.Outbound, s.SharedVLANs, s.LoginPorts(), s
	return t, err
}

// maxScript is the number of bytes that testbedProgram reads of a provider's script. The
// scripts that init writes are shorter.
const maxScript = 8 << 10

// testbedProgram returns the program that NAME.prov runs, if init wrote that script for
// a local testbed.
func testbedProgram(file, name string) (string, bool) {
	f, err := OpenRegular(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "exec ")
		if !ok {
			continue
		}
		word, _, ok := strings.Cut(rest, " local --name ")
		if !ok {
			return "", false
		}
		if q, ok := strings.CutPrefix(word, "'"); ok {
			word = strings.ReplaceAll(strings.TrimSuffix(q, "'"), `'\''`, "'")
		}
		return word, string(local.Script(word, name)) == string(text)
	}
	return "", false
}

// List returns the nodes of the testbed. The error wraps local.ErrDown if no process listens at
// the testbed's socket. Any other error means that a process listens but did not return the
// list.
func (t *Testbed) List(ctx context.Context, socket func(instance string) string) (l local.List, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a, err := local.Call(ctx, socket(t.Instance), local.Request{Action: local.ActionList})
	switch {
	case errors.Is(err, os.ErrPermission):
		return l, fmt.Errorf("only root and the owner of %s may use the testbed %s: give the file to the user of the server, and restart patchbay-local up", t.Settings, t.Instance)
	case err != nil:
		return l, err
	case a.Error != "":
		return l, errors.New(a.Error)
	}
	if err := json.Unmarshal(a.Output, &l); err != nil {
		return l, fmt.Errorf("the testbed's answer cannot be read: %w", err)
	}
	return l, nil
}

// Runs reports whether a process listens at the testbed's socket.
func (t *Testbed) Runs(ctx context.Context, socket func(instance string) string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return !errors.Is(t.ping(ctx, socket), local.ErrDown)
}

// ping makes the cheapest request: it reads an unknown node.
func (t *Testbed) ping(ctx context.Context, socket func(instance string) string) error {
	_, err := local.Call(ctx, socket(t.Instance), local.Request{Action: local.ActionGet, Input: json.RawMessage(`{"names":["none"]}`)})
	return err
}

// watch does not kill a process that hangs: an operator may have stopped it on purpose, and logins
// still work.
func (t *Testbed) watch(p *supervisor.Process, socket func(instance string) string, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-p.Exited(); cancel() }()
	ping := func() { _ = t.ping(ctx, socket) } // an error counts as an answer, too
	supervisor.DefaultHeartbeat.Watch(p.Exited(), ping, func(hangs bool) {
		switch {
		case ctx.Err() != nil:
		case hangs:
			log.Error("the local testbed hangs: it does not answer, so nodes are neither made nor removed; logins still work. Find out what its process (pid) waits for, or end it with kill -9: the server restarts it, and no node is lost", "pid", p.PID())
		default:
			log.Info("the local testbed that hung answers again", "pid", p.PID())
		}
	})
}

// longestPause is the longest pause before the restart of a testbed that ends again and again.
const longestPause = time.Minute

// maxLogLine is the maximum length of a testbed's line in the log, in bytes.
const maxLogLine = 4 << 10
