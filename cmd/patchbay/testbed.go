package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	outbound bool     // its nodes reach the network outside
	shared   []string // the shared VLANs that it allows
	lock     *os.File // of the server that acts on its nodes; nil where it is not held
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

// providersOf are the providers that an inventory names.
func providersOf(inv *inventory.Inventory) map[string]bool {
	used := make(map[string]bool)
	for _, c := range inv.Components {
		used[c.Provider] = true
	}
	return used
}

// findTestbeds are the local testbeds in the folder of providers among those that
// are used. One whose settings are wrong is left out: its provider says why.
func findTestbeds(dir string, used map[string]bool) []*testbed {
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
	t.instance, t.outbound, t.shared = s.Instance, s.Outbound, s.SharedVLANs
	return t, err
}

// maxScript is more than any script of ours has, in bytes.
const maxScript = 8 << 10

// testbedProgram is the program that a NAME.prov runs, if it is one that init
// writes for the local testbed.
func testbedProgram(file, name string) (string, bool) {
	f, err := openRegular(file)
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

// ask asks the testbed what there is. The error wraps local.ErrDown when nobody
// answers at its socket; with another one somebody is there, who does not let us
// know.
func (t *testbed) ask(ctx context.Context, socket func(instance string) string) (l local.List, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a, err := local.Call(ctx, socket(t.instance), local.Request{Action: local.ActionList})
	switch {
	case errors.Is(err, os.ErrPermission):
		return l, fmt.Errorf("only root and the owner of %s may ask the testbed %s: let the file belong to the user of the server, and start patchbay-local up again", t.settings, t.instance)
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

// runs tells whether somebody listens at the testbed's socket.
func (t *testbed) runs(ctx context.Context, socket func(instance string) string) bool {
	_, err := t.ask(ctx, socket)
	return !errors.Is(err, local.ErrDown)
}

// testbed checks what a local testbed needs beside its provider; false says that
// its provider need not be asked.
func (k *checker) testbed(ctx context.Context, t *testbed, inv *inventory.Inventory, wrong error) bool {
	if wrong != nil {
		k.bad(t.settings, "%v", wrong)
		return false
	}
	if lacks := local.Outdated(t.settings); lacks != "" {
		k.warn(t.settings, "%s", lacks)
	}
	list, err := t.ask(ctx, local.Socket)
	switch {
	case errors.Is(err, local.ErrDown):
		k.warn(t.settings, "the local testbed %s does not run, so no node can be made; serve starts it when it runs as root, else type: %s (and %s says whether this host can run nodes)",
			t.instance, asRoot(t.command("")...), asRoot(t.program, "doctor"))
	case err != nil:
		k.warn(t.settings, "the local testbed %s runs, but cannot be asked: %v", t.instance, err)
	default:
		k.good(t.settings, "the local testbed %s runs", t.instance)
		for _, name := range missingImages(t.provider, inv, list.Images) {
			k.warn(t.settings, "the inventory offers the image %s, which the testbed does not have, so nodes with it will fail; add it: %s",
				name, asRoot(t.program, "image", "add", t.settings, name))
		}
		return true
	}
	return false
}

// missingImages are those that the inventory offers on components of a provider,
// and that are not there. A testbed that does not tell which are is believed.
func missingImages(provider string, inv *inventory.Inventory, there []string) (missing []string) {
	if inv == nil || len(there) == 0 {
		return nil
	}
	for _, c := range inv.Components {
		for _, t := range c.SliverTypes {
			for _, i := range t.Images {
				if c.Provider == provider && !slices.Contains(there, i.Name) && !slices.Contains(missing, i.Name) {
					missing = append(missing, i.Name)
				}
			}
		}
	}
	return missing
}
