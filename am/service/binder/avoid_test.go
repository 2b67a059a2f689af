package binder

import (
	"strings"
	"testing"

	"patchbay/inventory"
)

func TestComponentsThatAreAvoided(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		avoid string // components
		nodes []string
		want  string
		asked string // nodes that the request leaves no other component
	}{
		{"the next one is taken", "pc1", []string{"type=raw-pc"}, "a=pc2/raw-pc/ubuntu!", ""},
		{"by all nodes", "pc1", []string{"type=raw-pc", "type=raw-pc"}, "a=pc2/raw-pc/ubuntu! b=pc3/raw-pc/ubuntu!", ""},
		{"several", "pc1 pc2", []string{"type=raw-pc"}, "a=pc3/raw-pc/ubuntu!", ""},
		{"none is left", "pc1 pc2 pc3", []string{"type=raw-pc"}, "a:1 6/26", ""},
		{"none of the hardware type is left", "pc3", []string{"type=raw-pc hw=large"}, "a:1 6/26", ""},
		{"shared hosts", "h1 h2", []string{"type=vm", "type=vm"}, "a=h3/vm/debian b=h3/vm/debian", ""},
		{"a host for several", "h1", []string{"type=vm group=g", "type=vm group=g"}, "a=h2/vm/debian b=h2/vm/debian", ""},
		{"not by a node that asks for it", "pc1", []string{"on=pc1"}, "a=pc1/raw-pc/ubuntu!", "a"},
		{"nor by one that shares its host", "h1", []string{"on=h1 group=g", "type=vm group=g", "type=vm"}, "a=h1/vm/debian b=h1/vm/debian c=h2/vm/debian", "ab"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			v := site(t, testbed)
			var avoid []*inventory.Component
			for name := range strings.FieldsSeq(tt.avoid) {
				c, ok := v.Component(component(name))
				if !ok {
					t.Fatal(name)
				}
				avoid = append(avoid, c)
			}
			b, err := bindFor(&Request{Request: request(tt.nodes...), Slice: slice("mine"), Avoid: avoid}, newHoldings(v))
			if got := result(b, err); got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
			asked := ""
			for _, n := range b.Nodes {
				if n.Asked {
					asked += n.Node.ClientID
				}
			}
			if asked != tt.asked {
				t.Errorf("%q ask for their component, want %q", asked, tt.asked)
			}
		})
	}
}
