package inventory

import (
	"strings"
	"testing"

	"patchbay/am"
)

// No inventory may use the machine of a sliver, identified by its name at the provider, for
// another component_id.
func TestClash(t *testing.T) {
	onPC, onHost := reservedOn("pc1"), reservedOn("h1")
	another := reservedOn("pc1")
	another.Provider = "other"
	const id = "component_id: 'urn:publicid:IDN+example.org+node+"
	swapped := []string{"{name: pc1,", "{name: h1, " + id + "pc1',", "{name: h1, exclusive: false", "{name: pc1, " + id + "h1', exclusive: false"}
	ports := []string{"{name: eth1,", "{name: eth9, component_id: 'urn:publicid:IDN+example.org+interface+pc1:eth1'}, {name: eth1, component_id: 'urn:publicid:IDN+example.org+interface+new',"}
	for _, tt := range []struct {
		rule    string
		pairs   []string
		slivers []am.Sliver
		want    string // "" for no clash
	}{
		{"as it was", nil, []am.Sliver{onPC, onHost}, ""},
		{"names swapped under nobody", swapped, nil, ""},
		{"names swapped", swapped, []am.Sliver{onPC}, "i:13: the component name pc1 moves to urn:publicid:IDN+example.org+node+h1, but a sliver of "},
		{"names swapped, and the provider is another", swapped, []am.Sliver{another}, ""},
		{"a new name", []string{"{name: pc1,", "{name: x, " + id + "pc1',"}, []am.Sliver{onPC}, ""},
		{"a new component_id", []string{"{name: pc1,", "{name: pc1, " + id + "x',"}, []am.Sliver{onPC}, ""},
		{"the old name for a new component", []string{"{name: pc1,", "{name: pc1, " + id + "new', exclusive: true}\n  - {name: x, " + id + "pc1',"}, []am.Sliver{onPC}, "i:12: the component name pc1 moves to "},
		{"removed", []string{"name: pc1", "name: pc2"}, []am.Sliver{onPC}, ""},
		{"names of interfaces", ports, []am.Sliver{onPC}, "i:12: the interface name eth1 moves to urn:publicid:IDN+example.org+interface+new"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			v := otherwise(t, tt.pairs...)
			err := CheckClash(v, "i", tt.slivers)
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("it is %v", err)
			}
			if err != nil && !v.HasRenamed(otherwise(t)) {
				t.Error("what clashes with slivers of an inventory does not rename it")
			}
		})
	}
	var many []am.Sliver
	for range 2 {
		for i := range maxClashes + 5 {
			x := onPC
			x.Slice.Name = strings.Repeat("s", i+1)
			many = append(many, x)
		}
	}
	if n := len(strings.Split(CheckClash(otherwise(t, swapped...), "i", many).Error(), "\n")); n != maxClashes+1 {
		t.Errorf("%d lines", n)
	}
}
