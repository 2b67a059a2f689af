package testbed

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// refusals requests new nodes at once, in a dry run or for real. It returns the kinds and
// messages of the refused ones, by number of the node.
func refusals(t *testing.T, tb *Testbed, noop bool, numbers ...int) map[int]string {
	t.Helper()
	var updates []object
	for _, n := range numbers {
		updates = append(updates, object{"name": nodeName(n), "should": newNode("web", sliceURN, "alice")})
	}
	b, err := json.Marshal(object{"updates": updates, "ral": object{"noop": noop}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tb.set(b)
	b, bad := json.Marshal(out)
	var answer struct {
		Changes []struct {
			Name  string
			Error struct{ Kind, Message string }
		}
	}
	if err := errors.Join(err, bad, json.Unmarshal(b, &answer)); err != nil {
		t.Fatal(err)
	}
	wrong := map[int]string{}
	for _, c := range answer.Changes {
		i := slices.IndexFunc(numbers, func(n int) bool { return nodeName(n) == c.Name })
		if c.Error.Kind != "" {
			wrong[numbers[i]] = c.Error.Kind + ": " + c.Error.Message
		}
	}
	return wrong
}

// Nodes without a free login port are refused in the dry run and at creation. Ports that rest
// count as free.
func TestNodesWithoutAPortAreRefusedInTheDryRun(t *testing.T) {
	h := newFakeHost(t)
	h.settings.FirstPort, h.settings.LastPort, h.settings.PortRest = 30500, 30503, 1e12 // the gateway has one
	tb, stop := h.run(-1)
	defer stop()
	setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	for _, noop := range []bool{true, false} {
		wrong := refusals(t, tb, noop, 2, 3, 4, 5)
		if len(wrong) != 2 || !strings.HasPrefix(wrong[4], "full: all ports for logins are taken") || wrong[5] == "" {
			t.Errorf("noop %v, with two ports left: refused are %v", noop, wrong)
		}
	}
	awaitNode(t, tb, nodeName(2), isReady)
	awaitNode(t, tb, nodeName(3), isReady)
	if wrong := refusals(t, tb, true, 4); len(wrong) != 1 {
		t.Error("a node without a port is accepted")
	}
	set(t, tb, nodeName(1), provider.Resource{"ensure": "absent"})
	awaitNode(t, tb, nodeName(1), provider.Gone)
	setUntilReady(t, tb, nodeName(4), newNode("web", sliceURN, "alice"))
}

// On a disk that nodes have filled, another node is refused in the dry run and at creation.
func TestNodesAreRefusedOnAFullDisk(t *testing.T) {
	require.Root(t)
	h := newFakeHost(t)
	state := filepath.Join(h.dir, "state")
	if err := errors.Join(os.Mkdir(state, 0o755), unix.Mount("none", state, "tmpfs", 0, "size=32M")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	tb, stop := h.run(-1)
	defer stop()
	full := filepath.Join(state, "full")
	if err := os.WriteFile(full, make([]byte, 31<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, noop := range []bool{true, false} {
		if wrong := refusals(t, tb, noop, 1); !strings.Contains(wrong[1], "no room left for another node") {
			t.Errorf("noop %v: refused are %v", noop, wrong)
		}
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
}
