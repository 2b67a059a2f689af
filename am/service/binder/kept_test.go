package binder

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
)

// TestKeptNodes checks that nodes which a change keeps stay on their components with their
// resources, at any position in the request. Beside each refusal is an accepted request.
func TestKeptNodes(t *testing.T) {
	four := []string{"on=h1", "on=h1", "on=h1", "on=h1"}
	for _, tt := range []struct {
		rule         string
		nodes, links []string // of the first request
		then, joins  []string // of the change; id=a names a node that stays
		want, text   string
	}{
		{"a node that names nothing stays", []string{"on=pc3"}, nil, []string{"id=a"}, nil, "a=pc3/pc!", ""},
		{"… and may name its component", []string{"type=pc"}, nil, []string{"id=a on=pc1 type=pc"}, nil, "a=pc1/pc!", ""},
		{"… but no other one", []string{"on=pc3"}, nil, []string{"id=a on=pc1"}, nil, "a:1 13/0", "it is on pc3, and a node cannot move; Delete the node first, or leave this as it was"},
		{"its exclusive component, named by an earlier node", []string{"on=pc1"}, nil, []string{"id=n on=pc1", "id=a"}, nil, "n:1 1/0", "pc1 is exclusive, and another node of the request is on it"},
		{"… by a later node", []string{"on=pc1"}, nil, []string{"id=a", "id=n on=pc1"}, nil, "n:2 1/0", "pc1 is exclusive, and another node of the request is on it"},
		{"… another one", []string{"on=pc1"}, nil, []string{"id=n on=pc2", "id=a"}, nil, "n=pc2/pc! a=pc1/pc!", ""},
		{"its place on a shared component, named by an earlier node", four, nil, []string{"id=n on=h1", "id=a", "id=b", "id=c", "id=d"}, nil, "n:1 6/26", "h1 has room for 4 vm, fewer than the request asks for"},
		{"… of a node that does not stay, and holds it", four, nil, []string{"id=n on=h1", "id=a", "id=b", "id=c"}, nil, "n:1 6/26", "h1 has room for 3 vm, fewer than the request asks for"},
		{"… another one", four, nil, []string{"id=n type=vm", "id=a", "id=b", "id=c", "id=d"}, nil, "n=h2/vm a=h1/vm b=h1/vm c=h1/vm d=h1/vm", ""},
		{"its public address", []string{"on=pc1 public=true"}, nil, []string{"id=n on=pc2 public=true", "id=a public=true"}, nil, "n=pc2/pc! 192.0.2.11 a=pc1/pc! 192.0.2.10", ""},
		{"… when no other is left", []string{"on=pc1 public=true"}, nil, []string{"id=n on=pc2 public=true", "id=a public=true", "id=o on=pc3 public=true"}, nil, "o:3 6/26", "the request asks for 2 public addresses; this aggregate has 2, of which 1 free"},
		{"… cannot be given up", []string{"on=pc1 public=true"}, nil, []string{"id=a"}, nil, "a:1 13/0", "whether it has a public address cannot change"},
		{"another type", []string{"on=pc1"}, nil, []string{"id=a type=vm"}, nil, "a:1 13/0", ""},
		{"alone", []string{"on=h1"}, nil, []string{"id=a exclusive=true"}, nil, "a:1 13/0", "whether it is exclusive cannot change"},
		{"… not alone, as it was", []string{"on=h1"}, nil, []string{"id=a exclusive=false"}, nil, "a=h1/vm", ""},
		{"the tag of its link, which stands behind a new one", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0"}, []string{"id=a", "id=b"}, []string{"m a:1 b:1", "l a:0 b:0"},
			"a=pc1/pc! b=pc2/pc! | a:1=pc1:eth1 #101 10.128.1.1/24; a:0=pc1:eth1 #100 10.128.0.1/24; b:1=pc2:eth1 #101 10.128.1.2/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},
		{"its address, which a new end of the link asks for", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0"}, []string{"id=n on=pc3", "id=a", "id=b"}, []string{"l n:0,10.128.0.1/24 a:0 b:0"},
			"l:100 1/0", `its interfaces "n:0" and "a:0" would both have the address 10.128.0.1; write another, or leave the choice to the site`},
		{"… another one", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0"}, []string{"id=n on=pc3", "id=a", "id=b"}, []string{"l n:0,10.128.0.9/24 a:0 b:0"},
			"n=pc3/pc! a=pc1/pc! b=pc2/pc! | n:0=pc3:eth1 #100 10.128.0.9/24; a:0=pc1:eth1 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},
		{"capacity that its interface has, once its own is counted anew", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 a:0>b:0=60000"}, []string{"id=a", "id=b"}, []string{"l a:0 b:0 a:0>b:0=100000"},
			"a=pc4/pc! b=pc5/pc! | a:0=pc4:eth1 >100000 <0 #100 10.128.0.1/24; b:0=pc5:eth1 >0 <100000 #100 10.128.0.2/24", ""},
		{"… and more", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 a:0>b:0=60000"}, []string{"id=a", "id=b"}, []string{"l a:0 b:0 a:0>b:0=100001"}, "l:100 6/25", "which carries 100000"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := newHoldings(site(t, switched))
			kept, used := map[string]*am.Sliver{}, []netip.Prefix{}
			was := allocate(t, x, "s", "mine", linked(request(tt.nodes...), tt.links...))
			second := linked(request(tt.then...), tt.joins...)
			for i := range was {
				if _, stays := second.Node(was[i].ClientID); stays {
					kept[was[i].ClientID] = &was[i]
				}
				for _, in := range was[i].Interfaces {
					used = append(used, in.Addresses...)
				}
			}
			b, err := bindFor(&Request{Request: second, Slice: slice("mine"), Kept: kept, Addresses: used}, x)
			got := result(b, err)
			if err == nil {
				for _, n := range b.Nodes {
					if text := n.Node.ClientID + "=" + n.Component.Name + "/" + n.SliverType.Name; n.PublicAddress.IsValid() {
						got = strings.Replace(got, text+"!", text+"! "+n.PublicAddress.String(), 1)
					}
				}
				if w := wiring(b, nil); w != "" {
					got += " | " + w
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is\n%v\nand lacks\n%s", err, tt.text)
			}
		})
	}
}
