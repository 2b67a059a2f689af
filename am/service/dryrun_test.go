package service

import (
	"testing"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/inventory"
	"patchbay/rspec"
)

// TestARefusalIsOfTheLinkThatItNames checks that a refusal of a provider which names a link is
// reported at that link.
func TestARefusalIsOfTheLinkThatItNames(t *testing.T) {
	req := &rspec.Request{Links: []rspec.Link{{ClientID: "lan", Line: 7}, {ClientID: "my\nlan", Line: 9}, {ClientID: "other", Line: 11}}}
	host := &inventory.Component{Name: "host"}
	for _, tt := range []struct{ rule, says, want string }{
		{"reported once, at the link's line", "link lan asks for latency, which this host cannot make: it has no clock",
			`line 7: link "lan": it asks for latency, which this host cannot make: it has no clock`},
		{"by its quoted name", `link "my\nlan" cannot be made: no room`, `line 9: link "my\nlan": it cannot be made: no room`},
		{"a link of other nodes is none of theirs", "link other asks for latency", `from line 2: nodes "a" and "b": on host it cannot be made: link other asks for latency`},
		{"no link begins with it", "link l asks for latency", `from line 2: nodes "a" and "b": on host it cannot be made: link l asks for latency`},
		{"no link", "there is no image x", `from line 2: nodes "a" and "b": on host it cannot be made: there is no image x`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var refused []refusal
			for i, id := range []string{"a", "b"} {
				refused = append(refused, refusal{
					node: &binder.Bound{Node: &rspec.Node{ClientID: id, Line: 2 + i}, Component: host, Interfaces: []am.Interface{{}, {Link: "lan"}, {Link: "my\nlan"}}},
					err:  &am.Error{Code: am.Unsupported, Msg: tt.says},
				})
			}
			if got := binder.Unsatisfied(reasons(req, refused)).Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
