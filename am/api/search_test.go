package api

import (
	"testing"
	"time"

	"patchbay/am/service"
)

// smallSite has two nodes, two hosts, one tag and one public address.
const smallSite = `
provider: simulated
images: [{name: debian}]
sliver_types: [{name: raw-pc, images: [debian], default_image: debian}, {name: vm, images: [debian], default_image: debian}]
default_sliver_type: raw-pc
links: [{name: core}]
vlans: [100]
public_addresses: [192.0.2.1]
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [raw-pc], interfaces: [{name: eth1, link: core}]}
  - {names: h1..h2, exclusive: false, sliver_types: [vm], capacity: {slots: 2}, interfaces: [{name: eth1, link: core}]}
`

// Nodes of a request.
const (
	apartPair  = `<node client_id="l" exclusive="false"><sliver_type name="vm"/><interface client_id="l:0"/></node><node client_id="m" exclusive="true"><interface client_id="m:0"/></node>`
	linkedPair = apartPair + `<link client_id="wire"><interface_ref client_id="l:0"/><interface_ref client_id="m:0"/></link>`
	joinedNode = `<node client_id="n" exclusive="false"><sliver_type name="vm"/><interface client_id="n:0"/></node>
		<link client_id="wire" xmlns:net="http://patchbay.example.org/rspec/ext/net/1" net:join="true"><interface_ref client_id="n:0"/></link>`
	togetherPair = `<node client_id="q" colocate="x"><sliver_type name="vm"/></node><node client_id="r" colocate="x"><sliver_type name="vm"/></node>`
	publicNode   = `<node client_id="p" exclusive="false"><sliver_type name="vm"/><emulab:routable_control_ip xmlns:emulab="http://www.protogeni.net/resources/rspec/ext/emulab/1"/></node>`
)

// TestStoriesOfRefusals asks a small site when there is room, and then asks for just that.
func TestStoriesOfRefusals(t *testing.T) {
	off, steps := service.DefaultLeases, service.DefaultLeases
	off.AheadMax, steps.AheadStep = 0, 30*time.Minute
	const first, longest = "value.patchbay_first_start=<string>", "value.patchbay_longest_end=<string>"
	for _, tt := range []struct {
		rule   string
		leases service.Leases
		story  string
	}{
		{"when leases end", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_end_time=+5h
			bob Allocate s2 x geni_end_time=+3h -> TOOBIG ` + first + `+5h !"patchbay_longest_end" "has room from"
			bob Allocate s2 x geni_start_time=+4h geni_end_time=+6h -> TOOBIG ` + first + `+5h
			bob Allocate s2 x geni_start_time=+5h geni_end_time=+8h`},
		{"before a reservation, and after it", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			bob Allocate s2 x geni_end_time=+8h -> TOOBIG ` + first + `+6h ` + longest + `+4h "if it begins now"
			bob Allocate s2 x geni_start_time=+6h geni_end_time=+14h
			bob Allocate s2 y geni_end_time=+4h`},
		{"a request with a start", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			bob Allocate s2 x geni_start_time=+2h geni_end_time=+5h -> TOOBIG ` + first + `+6h ` + longest + `+4h "if it begins at"
			bob Allocate s2 x geni_start_time=+6h geni_end_time=+9h
			bob Allocate s2 y geni_start_time=+2h geni_end_time=+4h`},
		{"without an end, a request for now is cut", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			bob Allocate s2 x -> "a reservation that begins then"
			bob Provision s2 -> @+4h`},
		{"but gets an hour at least", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+30m geni_end_time=+6h
			bob Allocate s2 x -> TOOBIG ` + first + `+6h !"patchbay_longest_end"`},
		{"version 2 is cut, too", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			bob CreateSliver s2 x
			bob SliverStatus s2 -> @+4h`},
		{"the end is that of the whole request", service.Leases{}, `
			alice Allocate s1 a@pc1 geni_start_time=+4h geni_end_time=+6h
			alice Allocate s1 b@pc2 geni_start_time=+5h geni_end_time=+7h
			bob Allocate s2 x y
			bob Provision s2 -> x@+4h y@+4h`},
		{"a gap that is too short", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			alice Allocate s1 c@pc1 d@pc2 geni_start_time=+7h geni_end_time=+9h
			bob Allocate s2 x geni_start_time=+4h geni_end_time=+6h -> TOOBIG ` + first + `+9h !"patchbay_longest_end"
			bob Allocate s2 x geni_start_time=+5h geni_end_time=+6h -> TOOBIG ` + first + `+6h`},
		{"a named component", service.Leases{}, `
			alice Allocate s1 a@pc1 geni_end_time=+5h
			bob Allocate s2 x@pc1 geni_end_time=+3h -> TOOBIG ` + first + `+5h`},
		{"a host", service.Leases{}, `
			alice Allocate s1 a:vm b:vm c:vm geni_end_time=+5h
			alice Allocate s1 d:vm geni_end_time=+4h
			bob Allocate s2 x:vm geni_end_time=+3h -> TOOBIG ` + first + `+4h
			bob Allocate s2 x:vm y:vm geni_end_time=+3h -> TOOBIG ` + first + `+5h
			bob Allocate s2 x:vm geni_start_time=+4h geni_end_time=+7h`},
		{"a tag", service.Leases{}, `
			alice Allocate s1 $linked geni_start_time=+2h geni_end_time=+5h
			bob Allocate s2 $linked geni_end_time=+3h -> VLAN_UNAVAILABLE|TOOBIG ` + first + `+5h ` + longest + `+2h
			bob Allocate s2 $linked geni_start_time=+5h geni_end_time=+8h`},
		{"a tag of a link that gets one more end", service.Leases{}, `
			alice Allocate s1 $linked geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 $linked geni_start_time=+10h geni_end_time=+12h
			alice Allocate s1 $joined geni_start_time=+10h geni_end_time=+11h -> VLAN_UNAVAILABLE "another slice" ` + first + `+12h !"bob" !"s2"
			alice Allocate s1 $joined geni_end_time=+20h -> VLAN_UNAVAILABLE ` + longest + `+10h
			alice Allocate s1 $joined geni_end_time=+10h`},
		{"a tag until the end of nodes that a change links", service.Leases{}, `
			alice Allocate s1 $apart geni_end_time=+100h
			alice Provision s1
			bob Allocate s2 $linked geni_start_time=+50h geni_end_time=+60h
			alice Allocate s1 $linked patchbay_change=1 -> VLAN_UNAVAILABLE|TOOBIG
			bob Delete s2
			alice Allocate s1 $linked patchbay_change=1`},
		{"a tag in the time of waiting nodes that a change links", service.Leases{}, `
			alice Allocate s1 $apart geni_start_time=+48h geni_end_time=+60h
			bob Allocate s2 $linked geni_start_time=+50h geni_end_time=+60h
			alice Allocate s1 $linked patchbay_change=1 -> VLAN_UNAVAILABLE|TOOBIG`},
		{"a public address", service.Leases{}, `
			alice Allocate s1 $public geni_end_time=+5h
			bob Allocate s2 $public geni_end_time=+3h -> TOOBIG ` + first + `+5h`},
		{"what never has room", service.Leases{}, `
			alice Allocate s1 a@pc1 geni_end_time=+5h
			bob Allocate s2 x y z -> TOOBIG !"patchbay_first_start" !"has room from"`},
		{"a site without reservations ahead", off, `
			alice Allocate s1 a@pc1 b@pc2 geni_end_time=+5h
			bob Allocate s2 x geni_end_time=+3h -> TOOBIG !"patchbay_first_start"`},
		{"a start is a multiple of the step", steps, `
			alice Allocate s1 a@pc1 b@pc2 geni_end_time=+5h
			bob Allocate s2 x geni_end_time=+3h -> TOOBIG ` + first + `$step
			bob Allocate s2 x geni_start_time=$step`},
		{"the credential ends before", service.Leases{}, `
			bob owns s3 4h
			alice Allocate s1 a@pc1 b@pc2 geni_end_time=+5h
			bob Allocate s3 x geni_end_time=+3h -> TOOBIG !"patchbay_first_start"`},
		{"after cleaning", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_end_time=+5h
			alice Provision s1
			settle
			alice Delete s1
			bob Allocate s2 x -> BUSY|TOOBIG ` + first + `+1h
			bob Allocate s2 x geni_start_time=+1h`},
		{"in a preview", service.Leases{}, `
			alice Allocate s1 a@pc1 b@pc2 geni_start_time=+4h geni_end_time=+6h
			bob Allocate s2 x patchbay_preview= -> "a reservation that begins then"
			bob Allocate s2 x geni_end_time=+5h patchbay_preview= -> TOOBIG ` + longest + `+4h`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := setting{inventory: smallSite, leases: tt.leases}.world(t, "linked", linkedPair, "apart", apartPair, "joined", joinedNode, "public", publicNode)
			w.texts["$step"] = FormatTime(w.clock().Add(5*time.Hour + 30*time.Minute - 1).Truncate(30 * time.Minute))
			w.play("alice owns s1 240h\nbob owns s2 240h\n" + tt.story)
		})
	}
}

// TestStoriesOfStays renews slivers beside reservations that begin later, and begins these.
func TestStoriesOfStays(t *testing.T) {
	for _, tt := range []struct{ rule, story string }{
		{"a node", `
			alice Allocate s1 a@pc1 geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 x@pc1 geni_start_time=+4h geni_end_time=+6h
			alice Renew s1 +5h -> REFUSED "a reservation"
			alice Renew s1 +5h geni_extend_alap=true -> @+4h`},
		{"a host with room", `
			alice Allocate s1 a:vm b:vm c:vm geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 x:vm geni_start_time=+4h geni_end_time=+6h
			alice Renew s1 +5h -> @+5h`},
		{"a host that is full then", `
			alice Allocate s1 a:vm b:vm geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 x:vm y:vm z:vm v:vm geni_start_time=+4h geni_end_time=+6h
			alice Renew s1 +5h -> REFUSED "a reservation"
			alice Renew s1 +4h -> @+4h`},
		{"a tag", `
			alice Allocate s1 $linked geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 $linked geni_start_time=+4h geni_end_time=+6h
			alice Renew s1 +5h -> REFUSED "a reservation"
			alice Renew s1 +4h -> @+4h`},
		{"a public address", `
			alice Allocate s1 $public geni_end_time=+2h
			alice Provision s1
			bob Allocate s2 $public geni_start_time=+4h geni_end_time=+6h
			alice Renew s1 +5h -> REFUSED "a reservation"
			alice Renew s1 +4h -> @+4h`},
		{"what waits can be longer, until the next", `
			alice Allocate s1 a@pc1 geni_start_time=+4h geni_end_time=+5h patchbay_provision_at_start=true geni_users=alice
			bob Allocate s2 w@pc1 geni_start_time=+2h geni_end_time=+3h
			bob Allocate s2 x@pc1 geni_start_time=+7h geni_end_time=+8h
			alice Renew s1 +8h -> REFUSED "a reservation"
			alice Renew s1 +7h -> @+7h`},
		{"the start waits while an address is held", `
			alice Allocate s1 $public geni_end_time=+2h
			alice Provision s1
			settle
			bob Allocate s2 $public geni_start_time=+2h geni_end_time=+6h
			pass 2h
			expire
			begin
			bob Provision s2 -> UNAVAILABLE "being cleaned"
			settle
			begin
			bob Provision s2`},
		{"another host does not help while the address is held", `
			alice Allocate s1 $public geni_end_time=+2h
			alice Provision s1
			settle
			bob Allocate s2 $public geni_start_time=+2h geni_end_time=+6h
			maintenance $drained
			pass 2h
			expire
			begin
			bob Provision s2 -> UNAVAILABLE "being cleaned"
			settle
			begin
			bob Provision s2 -> 'component_name="h2"'`},
		{"nodes that share a host stay together", `
			bob Allocate s2 $together geni_start_time=+2h geni_end_time=+6h
			maintenance $drained
			pass 2h
			begin
			bob Status s2 -> 2*"h1 is out of service; this sliver waits for it"`},
		{"the start waits while a host has no room", `
			alice Allocate s1 a:vm b:vm c:vm d:vm geni_end_time=+2h
			alice Provision s1
			settle
			bob Allocate s2 x:vm geni_start_time=+2h geni_end_time=+6h
			pass 2h
			expire
			begin
			bob Provision s2 -> UNAVAILABLE "being cleaned"
			settle
			begin
			bob Provision s2`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			setting{inventory: smallSite}.world(t, "linked", linkedPair, "public", publicNode, "together", togetherPair, "drained", "drained: [{components: [h1], text: broken}]").play("alice owns s1 240h\nbob owns s2 240h\n" + tt.story)
		})
	}
}
