package binder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/step"
)

const testbed = `
provider: rack
default_sliver_type: raw-pc
unknown_image: refuse
cleaning_time: 45s
hardware_types: [small, large, unused]
images: [{name: debian}, {name: ubuntu, url: "http://images.example.org/ubuntu"}, {name: bsd}]
sliver_types:
  - {name: raw-pc, images: [debian, ubuntu], default_image: ubuntu}
  - {name: vm, aliases: ["emulab-*"], needs: {cores: 1, memory: 1G}, images: [debian]}
  - {name: big-vm, needs: {cores: 2, memory: 4G}}
  - {name: orphan}
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [raw-pc], hardware_types: [small]}
  - {name: pc3, exclusive: true, sliver_types: [raw-pc], hardware_types: [large]}
  - {names: h1..h3, exclusive: false, sliver_types: [vm, big-vm], hardware_types: [large], capacity: {slots: 4, cores: 4, memory: 8G}}
`

func site(t testing.TB, text string) *inventory.Inventory {
	t.Helper()
	v, err := inventory.Parse([]byte(text), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func component(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Node, Name: name}
}

func slice(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Slice, Name: name}
}

// sliver makes a record. Marks after the sliver type: "!" wants to be alone,
// "~" is being cleaned.
func sliver(v *inventory.Inventory, id, of, on, kind string) am.Sliver {
	t, ok := v.SliverType(strings.TrimRight(kind, "!~"))
	if !ok {
		panic(kind)
	}
	s := am.Sliver{
		URN:       urn.URN{Authority: "example.org", Type: urn.Sliver, Name: id},
		Slice:     slice(of),
		Component: component(on),
		Amount:    t.Needs,
		Exclusive: strings.Contains(kind, "!"),
		Status:    am.Status{Allocation: am.Allocated},
	}
	if strings.Contains(kind, "~") {
		s.Status.Allocation = am.Unallocated
	}
	return s
}

// holding returns holdings in which each of held, "SLICE COMPONENT KIND", is a sliver.
func holding(v *inventory.Inventory, held ...string) *holdings {
	x := newHoldings(v)
	for i, h := range held {
		f := strings.Fields(h)
		x.put(sliver(v, fmt.Sprint("held", i), f[0], f[1], f[2]))
	}
	return x
}

// request makes nodes a, b, c, … of "key=value" words.
func request(nodes ...string) *rspec.Request {
	r := &rspec.Request{}
	for i, words := range nodes {
		n := rspec.Node{ClientID: string(rune('a' + i)), Line: i + 1}
		for w := range strings.FieldsSeq(words) {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "id":
				n.ClientID = value
			case "public":
				n.RoutableIP = true
			case "on":
				n.ComponentID = value
				if !strings.HasPrefix(value, "urn:") {
					n.ComponentID = component(value).String()
				}
			case "type":
				n.SliverType = value
			case "hw":
				n.HardwareType = value
			case "image":
				n.DiskImage = value
			case "url":
				n.DiskImageURL = value
			case "group":
				n.Colocate = value
			case "exclusive":
				yes := value == "true"
				n.Exclusive = &yes
			default:
				panic(w)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// result prints a binding, or the codes and texts of a refusal.
func result(b Binding, err error) string {
	var out []string
	if e, ok := errors.AsType[*UnsatisfiedError](err); ok {
		for _, r := range e.Reasons {
			out = append(out, fmt.Sprintf("%s:%d %d/%d", r.ClientID, r.Line, r.Code, r.detail()))
		}
		return strings.Join(out, " ")
	}
	for _, n := range b.Nodes {
		s := n.Node.ClientID + "=" + n.Component.Name + "/" + n.SliverType.Name
		if n.Image != "" {
			s += "/" + n.Image
		}
		if n.Exclusive {
			s += "!"
		}
		if n.Shared {
			s += "&"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestBind(t *testing.T) {
	allPCs := []string{"s pc1 raw-pc", "s pc2 raw-pc", "s pc3 raw-pc"}
	for _, tt := range []struct {
		rule  string
		held  []string
		nodes []string // of slice mine
		want  string
		text  string // in the error
	}{
		{"nothing asked", nil, nil, "", ""},
		{"first in the inventory", nil, []string{"type=raw-pc", "type=raw-pc"}, "a=pc1/raw-pc/ubuntu! b=pc2/raw-pc/ubuntu!", ""},
		{"default type of the site", []string{"s pc1 raw-pc"}, []string{""}, "a=pc2/raw-pc/ubuntu!", ""},
		{"default type of the component", nil, []string{"on=h2"}, "a=h2/vm/debian", ""},
		{"default type for a hardware type", nil, []string{"hw=large"}, "a=pc3/raw-pc/ubuntu!", ""},
		{"alias", nil, []string{"type=emulab-xen"}, "a=h1/vm/debian", ""},
		{"unknown type", nil, []string{"type=vn"}, "a:1 12/0", `node "a": there is no sliver type "vn"; did you mean "vm"?`},
		{"unknown type, nothing near", nil, []string{"type=quantum"}, "a:1 12/0", "there are raw-pc, vm, big-vm, orphan"},
		{"type on no component", nil, []string{"type=orphan"}, "a:1 13/0", "no component offers orphan; 3 raw-pcs, 12 vms, 6 big-vms free"},
		{"type not on that component", nil, []string{"on=pc1 type=vm"}, "a:1 13/0", "pc1 does not offer vm; it offers raw-pc"},
		{"unknown component", nil, []string{"on=pc11"}, "a:1 12/0", "did you mean urn:publicid:IDN+example.org+node+pc1?"},
		{"component of another authority", nil, []string{"on=urn:publicid:IDN+other.org+node+pc1"}, "a:1 12/0", "did you mean urn:publicid:IDN+example.org+node+pc1?"},
		{"unknown component, nothing near", nil, []string{"on=zzzzzz"}, "a:1 12/0", "the advertisement lists all components"},
		{"component_id is not a URN", nil, []string{"on=urn:pc1"}, "a:1 1/0", "its component_id is not a URN"},
		{"authority of a component ignores case", nil, []string{"on=urn:publicid:IDN+EXAMPLE.org+node+pc1"}, "a=pc1/raw-pc/ubuntu!", ""},

		{"image by name", nil, []string{"type=raw-pc image=debian"}, "a=pc1/raw-pc/debian!", ""},
		{"image by URN", nil, []string{"type=raw-pc image=urn:publicid:IDN+example.org+image+debian"}, "a=pc1/raw-pc/debian!", ""},
		{"image by URL", nil, []string{"on=pc1 url=http://images.example.org/ubuntu"}, "a=pc1/raw-pc/ubuntu!", ""},
		{"image of another type", nil, []string{"type=vm image=ubuntu"}, "a:1 13/0", `disk image "ubuntu" is not for vm; there are debian`},
		{"image of no type", nil, []string{"type=vm image=bsd"}, "a:1 13/0", ""},
		{"unknown image", nil, []string{"type=vm image=plan9"}, "a:1 12/0", `there is no disk image "plan9"; for vm there are debian`},
		{"unknown image, known URL", nil, []string{"image=plan9 url=http://images.example.org/ubuntu"}, "a=pc1/raw-pc/ubuntu!", ""},
		{"image for a type without images", nil, []string{"type=big-vm"}, "a=h1/big-vm", ""},

		{"hardware type", nil, []string{"hw=large type=raw-pc"}, "a=pc3/raw-pc/ubuntu!", ""},
		{"hardware type comes before freedom", nil, []string{"", "", "hw=small"}, "a=pc2/raw-pc/ubuntu! b=pc3/raw-pc/ubuntu! c=pc1/raw-pc/ubuntu!", ""},
		{"unknown hardware type", nil, []string{"hw=larg"}, "a:1 12/0", `no component that offers raw-pc is a "larg"; did you mean "large"?`},
		{"hardware type without such slivers", nil, []string{"hw=small type=vm"}, "a:1 13/0", ""},
		{"hardware type of no component", nil, []string{"hw=unused"}, "a:1 13/0", ""},
		{"bound to other hardware", nil, []string{"on=pc1 hw=large"}, "a:1 13/0", `pc1 is not a "large", but small`},
		{"hardware type used up", []string{"s pc3 raw-pc"}, []string{"hw=large type=raw-pc"}, "a:1 6/26", "no raw-pc on large is free: 1 of 1 are held; 2 raw-pcs, 12 vms, 6 big-vms free"},

		{"bound before unbound", nil, []string{"", "on=pc1"}, "a=pc2/raw-pc/ubuntu! b=pc1/raw-pc/ubuntu!", ""},
		{"all held", allPCs, []string{""}, "a:1 6/26", `node "a": no raw-pc is free: 3 of 3 are held; 12 vms, 6 big-vms free`},
		{"more than there are", []string{"s pc1 raw-pc"}, []string{"", "", ""}, "c:3 6/26", "3 raw-pcs requested, 2 free; 12 vms, 6 big-vms free"},
		{"bound and held", []string{"s pc1 raw-pc"}, []string{"on=pc1"}, "a:1 6/26", "pc1 is held; 2 raw-pcs, 12 vms, 6 big-vms free"},
		{"bound and held by the same slice", []string{"mine pc1 raw-pc"}, []string{"on=pc1"}, "a:1 6/26", ""},
		{"exclusive component twice", nil, []string{"on=pc1", "on=pc1"}, "b:2 1/0", "pc1 is exclusive, and another node of the request is on it"},
		{"shared component twice", nil, []string{"on=h1", "on=h1"}, "a=h1/vm/debian b=h1/vm/debian", ""},
		{"bound and full", []string{"s h1 big-vm", "s h1 big-vm"}, []string{"on=h1"}, "a:1 6/26", "h1 has room for 0 vm"},
		{"bound and full by this request", []string{"s h1 big-vm"}, []string{"on=h1", "on=h1", "on=h1"}, "c:3 6/26", "h1 has room for 2 vm, fewer than the request asks for"},
		{"any dimension can be the limit", []string{"s h1 vm", "s h1 vm", "s h1 vm"}, []string{"on=h1 type=big-vm"}, "a:1 6/26", ""},

		{"being cleaned, bound", []string{"s pc1 raw-pc~"}, []string{"on=pc1"}, "a:1 14/0", "pc1 is being cleaned after its last use, which usually takes up to 45s"},
		{"being cleaned, unbound", []string{"s pc1 raw-pc~"}, []string{""}, "a=pc2/raw-pc/ubuntu!", ""},
		{"all being cleaned, unbound", []string{"s pc1 raw-pc~", "s pc2 raw-pc~", "s pc3 raw-pc"}, []string{""}, "a:1 6/26", "1 of 3 are held and 2 being cleaned"},
		{"shared, full until clean", []string{"s h1 big-vm~", "s h1 big-vm"}, []string{"on=h1"}, "a:1 14/0", ""},
		{"shared, closed until clean", []string{"s h1 vm!~"}, []string{"on=h1"}, "a:1 14/0", ""},
		{"shared, not alone until clean", []string{"s h1 vm~"}, []string{"on=h1 exclusive=true"}, "a:1 14/0", ""},
		{"shared, too full even when clean", []string{"s h1 vm~", "s h1 vm", "s h1 big-vm"}, []string{"on=h1 type=big-vm"}, "a:1 6/26", ""},

		{"hosts in use fill up first", []string{"s h2 vm"}, []string{"type=vm", "type=vm", "type=vm", "type=vm"}, "a=h2/vm/debian b=h2/vm/debian c=h2/vm/debian d=h1/vm/debian", ""},
		{"own hosts first", []string{"s h1 vm", "mine h3 vm"}, []string{"type=vm"}, "a=h3/vm/debian", ""},
		{"exclusive=false may share", nil, []string{"type=vm exclusive=false"}, "a=h1/vm/debian", ""},
		{"exclusive=false gets what there is", nil, []string{"exclusive=false"}, "a=pc1/raw-pc/ubuntu!", ""},
		{"closed hosts are skipped", []string{"s h1 vm!"}, []string{"type=vm"}, "a=h2/vm/debian", ""},
		{"bound to a closed host", []string{"s h1 vm!"}, []string{"on=h1"}, "a:1 6/26", "another slice has the whole of h1 by exclusive=\"true\"; try again when that slice has ended"},
		{"own closed host is open", []string{"mine h2 vm!"}, []string{"type=vm", "on=h2"}, "a=h2/vm/debian b=h2/vm/debian", ""},

		{"alone on a shared component", nil, []string{"on=h1 exclusive=true"}, "a=h1/vm/debian!", ""},
		{"alone, beside own slivers", []string{"mine h1 vm"}, []string{"on=h1 exclusive=true"}, "a=h1/vm/debian!", ""},
		{"alone, but others are there", []string{"s h1 vm"}, []string{"on=h1 exclusive=true"}, "a:1 7/0", `exclusive="true" needs h1 empty, and other slices use it; drop exclusive="true" to share it`},
		{"alone wants an empty host", []string{"s h1 vm"}, []string{"type=vm exclusive=true", "type=vm exclusive=true"}, "a=h2/vm/debian! b=h2/vm/debian!", ""},
		{"alone comes before freedom", []string{"s h1 vm", "s h2 big-vm"}, []string{"type=big-vm", "type=big-vm", "type=vm exclusive=true"}, "a=h1/big-vm b=h2/big-vm c=h3/vm/debian!", ""},
		{"alone prefers own hosts", []string{"mine h3 vm"}, []string{"type=vm exclusive=true"}, "a=h3/vm/debian!", ""},
		{"all closed", []string{"s h1 vm!", "t h2 vm!", "u h3 vm!"}, []string{"type=vm"}, "a:1 6/26", `no vm is free: other slices have the whole of h1, h2, h3 by exclusive="true"; try again when they have ended; 3 raw-pcs free`},
		{"some closed", []string{"s h1 vm!", "t h2 big-vm", "t h2 big-vm", "u h3 big-vm", "u h3 big-vm"}, []string{"type=vm"}, "a:1 6/26", `3 of 3 are held, 1 of these whole by exclusive="true" of other slices`},
		{"nowhere alone", []string{"s h1 vm", "s h2 vm", "s h3 vm"}, []string{"type=vm exclusive=true"}, "a:1 7/0", `exclusive="true" needs an empty host, and all have other users; drop exclusive="true" to share one; 9 vms`},

		{"group on one host", []string{"s h1 vm", "s h1 vm"}, []string{"type=vm group=g", "type=vm group=g", "type=vm group=g"}, "a=h2/vm/debian b=h2/vm/debian c=h2/vm/debian", ""},
		{"group prefers hosts in use", []string{"s h2 vm"}, []string{"type=vm group=g", "type=vm group=g"}, "a=h2/vm/debian b=h2/vm/debian", ""},
		{"mixed group", []string{"s h1 vm", "s h1 vm"}, []string{"type=vm group=g", "type=big-vm group=g"}, "a=h2/vm/debian b=h2/big-vm", ""},
		{"group with a bound member", nil, []string{"type=vm group=g", "on=h3 group=g"}, "a=h3/vm/debian b=h3/vm/debian", ""},
		{"group without types takes the host's", nil, []string{"group=g", "on=h3 group=g"}, "a=h3/vm/debian b=h3/vm/debian", ""},
		{"group bound apart", nil, []string{"on=h1 group=g", "on=h2 group=g"}, "b:2 1/0", "names h1"},
		{"group too large", []string{"s h1 vm"}, []string{"type=vm group=g", "type=vm group=g", "type=vm group=g", "type=vm group=g", "type=vm group=g"}, "a:1 6/26 b:2 6/26 c:3 6/26 d:4 6/26 e:5 6/26", "no host has room for the 5 nodes"},
		{"group on exclusive components", nil, []string{"group=g", "group=g"}, "a:1 13/0 b:2 13/0", "raw-pc is exclusive, so 2 nodes cannot share one"},
		{"group of one", nil, []string{"group=g"}, "a=pc1/raw-pc/ubuntu!", ""},
		{"group with hardware types", nil, []string{"type=vm group=g hw=large", "type=vm group=g"}, "a=h1/vm/debian b=h1/vm/debian", ""},
		{"group alone", []string{"s h1 vm"}, []string{"type=vm group=g exclusive=true", "type=vm group=g"}, "a=h2/vm/debian! b=h2/vm/debian", ""},
		{"two groups", nil, []string{"type=big-vm group=g", "type=big-vm group=h", "type=big-vm group=h", "type=big-vm group=g"}, "a=h1/big-vm b=h2/big-vm c=h2/big-vm d=h1/big-vm", ""},

		{"what lasts comes first", []string{"s pc1 raw-pc~", "s pc2 raw-pc"}, []string{"on=pc1", "on=pc2", "type=quantum"}, "c:3 12/0 b:2 6/26 a:1 14/0", ""},
		{"all or nothing", nil, []string{"type=vm", "type=quantum"}, "b:2 12/0", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := holding(site(t, testbed), tt.held...)
			b, err := bind(request(tt.nodes...), x, slice("mine"))
			if diff := cmp.Diff(tt.want, result(b, err)); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is\n%v\nand lacks\n%s", err, tt.text)
			}
			if err != nil && b.Nodes != nil {
				t.Error("something is bound beside an error")
			}
			if tt.text != "" && err == nil {
				t.Error("no error")
			}
		})
	}
}

// Thirty students request nodes on one host, half of them with exclusive="true", as GENI's tools
// do. If such nodes share the host, all students get theirs.
func TestAClassSharesOneHost(t *testing.T) {
	const classroom = `
provider: local
exclusive_on_shared: share
sliver_types: [{name: container, aliases: [raw-pc]}]
components: [{name: host, exclusive: false, sliver_types: [container], capacity: {slots: 60}}]
`
	v := site(t, classroom)
	x := newHoldings(v)
	for i := range 30 {
		student := fmt.Sprint("student", i)
		b, err := bind(request("type=raw-pc exclusive="+fmt.Sprint(i%2 == 0), "type=raw-pc"), x, slice(student))
		if err != nil {
			t.Fatalf("%s: %v", student, err)
		}
		for j, n := range b.Nodes {
			if n.Exclusive || n.Shared != (i%2 == 0 && j == 0) {
				t.Errorf("%s: node %d is exclusive: %v; has the notice that it shares the host: %v", student, j, n.Exclusive, n.Shared)
			}
			x.put(sliver(v, fmt.Sprint(student, "-", j), student, "host", "container"))
		}
	}
}

func TestBindPolicies(t *testing.T) {
	for _, tt := range []struct {
		rule, old, new string
		nodes          []string
		want, text     string
	}{
		{"unknown image: default", "unknown_image: refuse", "unknown_image: default", []string{"type=vm image=plan9"}, "a=h1/vm/debian", ""},
		{"unknown image: default, but known elsewhere", "unknown_image: refuse", "unknown_image: default", []string{"type=vm image=bsd"}, "a:1 13/0", ""},
		{"exclusive on shared: refuse, bound", "cleaning", "exclusive_on_shared: refuse\ncleaning", []string{"on=h1 exclusive=true"}, "a:1 7/0", `h1 is shared, and no slice can have it alone; drop exclusive="true" to share it`},
		{"exclusive on shared: refuse, unbound", "cleaning", "exclusive_on_shared: refuse\ncleaning", []string{"type=vm exclusive=true"}, "a:1 7/0", `components with vm are shared, and no slice can have one alone; drop exclusive="true" to share one`},
		{"exclusive on shared: refuse, exclusive component", "cleaning", "exclusive_on_shared: refuse\ncleaning", []string{"exclusive=true"}, "a=pc1/raw-pc/ubuntu!", ""},
		{"exclusive on shared: share, bound", "cleaning", "exclusive_on_shared: share\ncleaning", []string{"on=h1 exclusive=true", "on=h1"}, "a=h1/vm/debian& b=h1/vm/debian", ""},
		{"exclusive on shared: share, unbound", "cleaning", "exclusive_on_shared: share\ncleaning", []string{"type=vm exclusive=true"}, "a=h1/vm/debian&", ""},
		{"exclusive on shared: share, group", "cleaning", "exclusive_on_shared: share\ncleaning", []string{"type=vm group=g exclusive=true", "type=vm group=g"}, "a=h1/vm/debian& b=h1/vm/debian", ""},
		{"exclusive on shared: share, but an exclusive component first", "cleaning_time: 45s\nhardware_types: [small, large, unused]", "exclusive_on_shared: share\nhardware_types: [small, large, unused]", []string{"exclusive=true", "type=vm exclusive=true"}, "a=pc1/raw-pc/ubuntu! b=h1/vm/debian&", ""},
		{"the limit is not the slots", "needs: {cores: 1, memory: 1G}", "needs: {cores: 1, memory: 3G}", []string{"type=vm", "type=vm", "type=vm", "type=vm", "type=vm", "type=vm", "type=vm"}, "g:7 6/26", "7 vms requested, 6 free (memory is the limit, 3072 MiB for each); 3 raw-pcs, 6 big-vms free"},
		{"drained, unbound", "names: pc1..pc2,", "names: pc1..pc2, drained: true,", []string{""}, "a=pc3/raw-pc/ubuntu!", ""},
		{"drained, bound", "names: pc1..pc2,", "names: pc1..pc2, drained: true,", []string{"on=pc2"}, "a:1 6/26", "pc2 is out of service; 1 raw-pc"},
		{"all drained", "names: h1..h3,", "names: h1..h3, drained: true,", []string{"type=vm"}, "a:1 6/26", "no vm is in service; 3 raw-pcs free"},
		{"a shared component before an exclusive one", "{names: pc1..pc2, exclusive: true, sliver_types: [raw-pc]", "{names: pc1..pc2, exclusive: true, sliver_types: [vm]", []string{"type=vm", "type=vm exclusive=true"}, "a=h1/vm/debian b=pc1/vm/debian!", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			text := strings.Replace(testbed, tt.old, tt.new, 1)
			b, err := bind(request(tt.nodes...), newHoldings(site(t, text)), slice("mine"))
			if diff := cmp.Diff(tt.want, result(b, err)); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is\n%v\nand lacks\n%s", err, tt.text)
			}
		})
	}
}

func TestErrorIsShort(t *testing.T) {
	held := []string{"s pc1 raw-pc", "s pc2 raw-pc", "s pc3 raw-pc"}
	for _, tt := range []struct {
		rule  string
		nodes []string
		want  string
	}{
		{"nodes that share a reason share a sentence", []string{"", "", "", "", ""},
			`from line 1: nodes "a", "b", "c", "d" and "e": no raw-pc is free: 3 of 3 are held; 12 vms, 6 big-vms free`},
		{"others have one of their own", []string{"", "on=pc1", ""},
			`line 2: node "b": pc1 is held; 12 vms, 6 big-vms free; from line 1: nodes "a" and "c": no raw-pc is free: 3 of 3 are held; 12 vms, 6 big-vms free`},
		{"at most ten nodes are named", slices.Repeat([]string{"type=orphan"}, 20),
			`from line 1: nodes "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 10 more: no component offers orphan; 12 vms, 6 big-vms free`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := bind(request(tt.nodes...), holding(site(t, testbed), held...), slice("mine"))
			if err == nil || err.Error() != tt.want {
				t.Errorf("the error is\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestRefusalHasTheLine(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		reasons []Reason
		want    string
	}{
		{"of a node", []Reason{{Kind: "node", ClientID: "a", Line: 7, Text: "gone"}}, `line 7: node "a": gone`},
		{"of a link", []Reason{{Kind: "link", ClientID: "l", Line: 9, Text: "gone"}}, `line 9: link "l": gone`},
		{"the first of those that share a reason", []Reason{{Kind: "node", ClientID: "a", Line: 7, Text: "gone"}, {Kind: "node", ClientID: "b", Line: 4, Text: "gone"}},
			`from line 4: nodes "a" and "b": gone`},
		{"of nothing that has none", []Reason{{Kind: "node", ClientID: "a", Text: "gone"}}, `node "a": gone`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if got := (&UnsatisfiedError{Reasons: tt.reasons}).Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestErrorHasAtMostFiveReasons(t *testing.T) {
	var nodes []string
	for i := range 20 {
		nodes = append(nodes, fmt.Sprint("type=quantum", i))
	}
	_, err := bind(request(nodes...), newHoldings(site(t, testbed)), slice("mine"))
	if e, ok := errors.AsType[*UnsatisfiedError](err); !ok || len(e.Reasons) != 20 {
		t.Fatalf("%v", err)
	}
	if strings.Count(err.Error(), "quantum") != 5 || !strings.HasSuffix(err.Error(), "and 15 more nodes") {
		t.Error(err)
	}
}

// Disks count, also those of otherwise equal nodes.
func TestAmountHasTheDisksOfTheNode(t *testing.T) {
	const small = `
provider: local
default_sliver_type: container
sliver_types: [{name: container, needs: {slots: 1, disk: 4G}}]
components: [{name: host, exclusive: false, sliver_types: [container], capacity: {slots: 60, disk: 30G}}]
`
	for _, tt := range []struct {
		rule      string
		disks     [][]int64 // GiB of each node
		want, err string
	}{
		{"no disks", [][]int64{{}, {}}, "[4096 4096]", ""},
		{"several disks", [][]int64{{10, 2}, {}}, "[16384 4096]", ""},
		{"as much as there is", [][]int64{{11}, {11}}, "[15360 15360]", ""},
		{"too large", [][]int64{{27}}, "", "its disks have 27648 MiB, and no component with container has that much left; ask for smaller disks"},
		{"too large together", [][]int64{{11}, {12}}, "", "2 containers requested"},
	} {
		r := request(make([]string, len(tt.disks))...)
		for i, list := range tt.disks {
			for _, size := range list {
				r.Nodes[i].Services.Steps = append(r.Nodes[i].Services.Steps, step.Requested{Step: step.Step{Kind: step.Disk, Size: size << 10}})
			}
		}
		b, err := bind(r, newHoldings(site(t, small)), slice("mine"))
		var got []int64
		for _, n := range b.Nodes {
			got = append(got, n.Amount.Disk)
		}
		if tt.err == "" && (err != nil || fmt.Sprint(got) != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, %v", tt.rule, got, err)
		}
	}
}

func TestAmountOfANodeIsThatOfItsType(t *testing.T) {
	b, err := bind(request("type=big-vm"), newHoldings(site(t, testbed)), slice("mine"))
	if err != nil || b.Nodes[0].Amount != (am.Amount{Slots: 1, Cores: 2, Memory: 4096}) {
		t.Errorf("%+v, %v", b, err)
	}
}
