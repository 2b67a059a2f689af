package binder

import (
	"strings"
	"testing"
)

func TestComponentsThatAreAvoided(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		avoid map[string]string // node → components
		nodes []string
		want  string
		asked string // nodes that the request leaves no other component
	}{
		{"the next one is taken", map[string]string{"a": "pc1"}, []string{"type=raw-pc"}, "a=pc2/raw-pc/ubuntu!", ""},
		{"by that node alone", map[string]string{"a": "pc1"}, []string{"type=raw-pc", "type=raw-pc"}, "a=pc2/raw-pc/ubuntu! b=pc1/raw-pc/ubuntu!", ""},
		{"several", map[string]string{"a": "pc1 pc2"}, []string{"type=raw-pc"}, "a=pc3/raw-pc/ubuntu!", ""},
		{"none is left", map[string]string{"a": "pc1 pc2 pc3"}, []string{"type=raw-pc"}, "a:1 6/26", ""},
		{"none of the hardware type is left", map[string]string{"a": "pc3"}, []string{"type=raw-pc hw=large"}, "a:1 6/26", ""},
		{"shared hosts", map[string]string{"b": "h1 h2"}, []string{"type=vm", "type=vm"}, "a=h1/vm/debian b=h3/vm/debian", ""},
		{"a host for several, avoided by one of them", map[string]string{"b": "h1"}, []string{"type=vm group=g", "type=vm group=g"}, "a=h2/vm/debian b=h2/vm/debian", ""},
		{"not by a node that asks for it", map[string]string{"a": "pc1"}, []string{"on=pc1"}, "a=pc1/raw-pc/ubuntu!", "a"},
		{"nor by one that shares its host", map[string]string{"b": "h1"}, []string{"on=h1 group=g", "type=vm group=g", "type=vm"}, "a=h1/vm/debian b=h1/vm/debian c=h1/vm/debian", "ab"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			v := site(t, testbed)
			avoid := Avoid{}
			for id, names := range tt.avoid {
				for name := range strings.FieldsSeq(names) {
					c, ok := v.Component(component(name))
					if !ok {
						t.Fatal(name)
					}
					avoid.Add(id, c)
				}
			}
			b, err := BindAvoiding(avoid, request(tt.nodes...), NewIndex(v), slice("mine"))
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
