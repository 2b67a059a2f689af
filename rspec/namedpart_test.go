package rspec

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClaims checks which nodes, interfaces and links have a client_id in the slice: our own, and
// links that are only copied, but nothing of other aggregates. A stored request has the same,
// whatever the setting for cross links is now.
func TestClaims(t *testing.T) {
	text := request(nodeA + "\n" + nodeFar1 + nodeB + "\n" + nodeFar2 + linkTo("l", "", "a:0", "b:0") + linkTo("far", "", "f:0", "g:0") + "\n" + linkTo("cross", "", "g:0", "b:1"))
	want := []string{
		"node a [0] 0", "interface a:0 [0] 0", "interface a:1 [0] 0", "node b [1] 1", "interface b:0 [1] 1", "interface b:1 [1] 1",
		"link l [0 1] 2", "link cross [1] 3",
	}
	copied, stored := ours(), ours()
	copied.CopyCrossLinks, stored.Stored = true, true
	for rule, o := range map[string]ReadOptions{"copied": copied, "stored": stored} {
		r := mustParse(t, text, o)
		var got []string
		for c := range r.NamedParts() {
			got = append(got, fmt.Sprint(c.Kind, " ", c.ClientID, " ", c.Nodes, " ", c.Line-r.Nodes[0].Line))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", rule, diff)
		}
		for range r.NamedParts() {
			break // a reader may stop
		}
	}
}
