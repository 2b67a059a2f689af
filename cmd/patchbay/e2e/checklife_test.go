package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/site"
	"patchbay/am/store"
	"patchbay/am/testkit/program"
	"patchbay/am/urn"
)

// TestCheckCreatesNoNodeOnUsedComponent proves that check --life refuses components that are
// reserved, in use or served. TestRootOwnsNothingInUserSite creates a node on a free one.
func TestCheckCreatesNoNodeOnUsedComponent(t *testing.T) {
	t.Parallel()
	f := newFederation(t, "fed.example.org")
	s := newServedSite(t, "testbed.example.org", f, nil)
	file := program.RemoveSimulatedDelays(t, s.dir)
	refused := func(component string, says ...string) {
		t.Helper()
		code, out := program.Run(t, "check", "--life", component, file)
		if code != 1 || strings.Contains(out, "create the node") {
			t.Errorf("exit status %d:\n%s", code, out)
		}
		program.WantTexts(t, out, append(says, "no node is created: ")...)
	}
	refused("pc77", `the inventory has no component "pc77"; did you mean `)
	config, err := site.ReadConfig(filepath.Join(s.dir, site.ConfigName))
	if err != nil {
		t.Fatal(err)
	}

	// Reserved, but not created yet.
	st, err := store.Open(config.State, store.Options{Site: config.Authority})
	if err != nil {
		t.Fatal(err)
	}
	name := func(kind, name string) urn.URN { return urn.URN{Authority: config.Authority, Type: kind, Name: name} }
	err = st.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		cs.PutSliver(am.Sliver{URN: name(urn.Sliver, "x"), Slice: name(urn.Slice, "s"), Component: name(urn.Node, "pc3"), Status: am.Status{Allocation: am.Allocated}, Frozen: true})
		return cs, nil
	})
	if err != nil || st.Close() != nil {
		t.Fatal(err)
	}
	refused("pc3", "pc3 is reserved for "+name(urn.Sliver, "x").String())

	// It exists, but belongs to no sliver.
	c := exec.Command(file, "ral_action=set")
	c.Dir = filepath.Dir(file)
	c.Stdin = strings.NewReader(`{"updates":[{"name":"n1","is":{"ensure":"absent"},"should":{"ensure":"present","component":"pc4"}}],"ral":{"noop":false}}`)
	if out, err := c.Output(); err != nil || strings.Contains(string(out), "error") {
		t.Fatalf("%s %v", out, err)
	}
	refused("pc4", "pc4 is in use: the provider reports node n1 there")

	// The running server has not read drained: true in the file yet.
	s.start()
	program.Edit(t, filepath.Join(s.dir, "inventory.yaml"), "  - names: pc1..pc12\n", "  - names: pc1..pc12\n    drained: true\n")
	refused("pc5", "could allocate pc5 meanwhile; stop the server first")
	_, out := program.RunIn(t, program.NewSite(t), "check", "--life", "pc5", file) // in the folder of another site
	program.WantTexts(t, out, "no node is created: its site could allocate pc5 meanwhile")
	s.stop()
}
