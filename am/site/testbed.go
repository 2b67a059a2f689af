package site

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

// Testbed is a provider whose nodes are containers of this host. A program that
// runs as root makes them.
type Testbed struct {
	Provider string // its name
	Program  string // the path of patchbay-local
	Settings string // the path of NAME.yaml
	Instance string
	Outbound bool     // its nodes reach the network outside
	Shared   []string // the shared VLANs that it allows
	lock     *os.File // of the server that acts on its nodes; nil where it is not held
}

// Command is how to start it.
func (t *Testbed) Command() []string { return []string{t.Program, "up", t.Settings} }

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
func findTestbeds(dir string, used map[string]bool) []*Testbed {
	var found []*Testbed
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if t, err := OpenTestbed(dir, name); t != nil && err == nil {
			found = append(found, t)
		}
	}
	return found
}

// OpenTestbed is the local testbed that is the provider called name, nil if
// that is another kind of provider. The error is what is wrong with its settings.
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
	t.Instance, t.Outbound, t.Shared = s.Instance, s.Outbound, s.SharedVLANs
	return t, err
}

// maxScript is more than any script of ours has, in bytes.
const maxScript = 8 << 10

// testbedProgram is the program that a NAME.prov runs, if it is one that init
// writes for the local testbed.
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

// List asks the testbed what there is. The error wraps local.ErrDown when nobody
// answers at its socket; with another one somebody is there, who does not let us
// know.
func (t *Testbed) List(ctx context.Context, socket func(instance string) string) (l local.List, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a, err := local.Call(ctx, socket(t.Instance), local.Request{Action: local.ActionList})
	switch {
	case errors.Is(err, os.ErrPermission):
		return l, fmt.Errorf("only root and the owner of %s may ask the testbed %s: let the file belong to the user of the server, and start patchbay-local up again", t.Settings, t.Instance)
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

// Runs tells whether somebody listens at the testbed's socket.
func (t *Testbed) Runs(ctx context.Context, socket func(instance string) string) bool {
	_, err := t.List(ctx, socket)
	return !errors.Is(err, local.ErrDown)
}

func (t *Testbed) letGo() {
	if t.lock != nil {
		t.lock.Close()
		t.lock = nil
	}
}
