package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/inventory"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
)

// testbed is a provider whose nodes are containers of this host. A program that
// runs as root makes them.
type testbed struct {
	provider string // its name
	program  string // the path of patchbay-local
	settings string // the path of NAME.yaml
	instance string
}

// command is how to start it, with its state in a folder of its own if state
// names one.
func (t *testbed) command(state string) []string {
	words := []string{t.program, "up"}
	if state != "" {
		words = append(words, "--state", state)
	}
	return append(words, t.settings)
}

// findTestbeds are the local testbeds in the folder of providers whose nodes the
// inventory offers. One whose settings are wrong is left out: its provider says why.
func findTestbeds(dir string, inv *inventory.Inventory) []*testbed {
	used := make(map[string]bool)
	for _, c := range inv.Components {
		used[c.Provider] = true
	}
	var found []*testbed
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if t, err := openTestbed(dir, name); t != nil && err == nil {
			found = append(found, t)
		}
	}
	return found
}

// openTestbed is the local testbed that is the provider called name, nil if
// that is another kind of provider. The error is what is wrong with its settings.
func openTestbed(dir, name string) (*testbed, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, nil
	}
	program, ok := testbedProgram(filepath.Join(dir, name+provider.Suffix), name)
	if !ok {
		return nil, nil
	}
	t := &testbed{provider: name, program: program, settings: filepath.Join(dir, name+".yaml")}
	s, err := local.ReadSettings(t.settings)
	t.instance = s.Instance
	return t, err
}

// maxScript is more than any script of ours has, in bytes.
const maxScript = 8 << 10

// testbedProgram is the program that a NAME.prov runs, if it is one that init
// writes for the local testbed.
func testbedProgram(file, name string) (string, bool) {
	f, err := os.Open(file)
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

// answers tells whether somebody answers at the testbed's socket.
func (t *testbed) answers(ctx context.Context, socket func(instance string) string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := local.Call(ctx, socket(t.instance), local.Request{Action: local.ActionList})
	return !errors.Is(err, local.ErrDown)
}

// testbed checks what a local testbed needs beside its provider; false says that
// its provider need not be asked.
func (k *checker) testbed(ctx context.Context, t *testbed, wrong error) bool {
	switch {
	case wrong != nil:
		k.bad(t.settings, "%v", wrong)
	case !t.answers(ctx, local.Socket):
		k.warn(t.settings, "the local testbed %s does not run, so no node can be made; serve starts it when it runs as root, else type: %s (and %s says whether this host can run nodes)",
			t.instance, asRoot(t.command("")...), asRoot(t.program, "doctor"))
	default:
		k.good(t.settings, "the local testbed %s runs", t.instance)
		return true
	}
	return false
}
