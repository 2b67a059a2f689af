package work

import (
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// A node that takes the name or a link of a node being removed is created after the provider
// has accepted the removal, because the provider would compare the two. If the removal fails,
// the node waits no longer than its creation may take.
func TestNodesWaitForRemovedNodesOfTheSameName(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		other func(x *am.Sliver)
		waits bool
	}{
		{"the same client_id", func(x *am.Sliver) { x.ClientID = "web" }, true},
		{"the same link", func(x *am.Sliver) { x.Interfaces = []am.Interface{{ClientID: "web:1", Link: "lan"}} }, true},
		{"other names", func(*am.Sliver) {}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				as := func(name string, change func(*am.Sliver)) {
					e.allocate(name)
					e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
						s, _, err := v.Sliver(sliverURN(name))
						change(&s)
						cs.PutSliver(s)
						return cs, err
					})
					e.provision(name)
				}
				e.start()
				as("a-1", func(x *am.Sliver) {
					x.ClientID, x.Interfaces = "web", []am.Interface{{ClientID: "web:0", Link: "lan"}}
				})
				e.becomes(time.Minute, notReady, "a-1")
				e.d.with(func() { e.d.hangs["a-1"] = true })
				e.release("a-1")
				as("a-2", tt.other)
				time.Sleep(10 * time.Second) // of the bubble
				made := false
				e.d.with(func() { made = e.d.nodes["a-2"] != nil })
				if made == tt.waits {
					t.Errorf("created while the other one exists: %v", made)
				}
				e.becomes(time.Hour, notReady, "a-2")
			})
		})
	}
}
