package testbed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// describeLink returns a link as one line: its ends, then its shapes.
func describeLink(l *link) string {
	if l == nil {
		return "none"
	}
	var ends, shapes []string
	for _, e := range l.Ends {
		ends = append(ends, e.ID+"="+e.IfName)
	}
	for _, s := range l.Shapes {
		only := ""
		if s.Only {
			only = " only"
		}
		shapes = append(shapes, fmt.Sprintf("%v→%v %d %v %g%s", s.From, s.To, s.Rate, s.Delay, s.Loss, only))
	}
	slices.Sort(shapes)
	return strings.Join(append(ends, shapes...), "; ")
}

func TestLinksArePlannedFromTheirEnds(t *testing.T) {
	const all = `,"properties":[{"capacity":1000,"latency":0.5}]`
	for _, tt := range []struct {
		rule  string
		nodes map[string][]string
		want  string // of the link lan
	}{
		{"no properties", map[string][]string{"b": {interfaceItem("0", "lan", "", "")}, "a": {interfaceItem("0", "x", "", ""), interfaceItem("1", "lan", "", "")}}, "a/eth2=eth2; b/eth1=eth1"},
		{"one interface", map[string][]string{"a": {interfaceItem("0", "lan", "", all)}}, "a/eth1=eth1; []→[] 1000 500µs 0"},
		{"two of one node", map[string][]string{"a": {interfaceItem("0", "lan", "", ""), interfaceItem("1", "lan", "", "")}}, "a/eth1=eth1; a/eth2=eth2"},
		{"the same from all", map[string][]string{"a": {interfaceItem("0", "lan", "", all)}, "b": {interfaceItem("1", "lan", "", all)}}, "a/eth1=eth1; b/eth1=eth1; []→[] 1000 500µs 0"},
		{"the same from some", map[string][]string{"a": {interfaceItem("0", "lan", "", all)}, "b": {interfaceItem("1", "lan", "", all)}, "c": {interfaceItem("2", "lan", "", "")}},
			"a/eth1=eth1; b/eth1=eth1; c/eth1=eth1; [a/eth1 b/eth1]→[] 1000 500µs 0"},
		{"one way", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"packet_loss":25}]`)}, "b": {interfaceItem("1", "lan", "", "")}}, "a/eth1=eth1; b/eth1=eth1; [a/eth1]→[] 0 0s 0.25"},
		{"a pair", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"to":["1"],"latency":10},{"capacity":5}]`)}, "b": {interfaceItem("1", "lan", "", "")}, "c": {interfaceItem("2", "lan", "", "")}},
			"a/eth1=eth1; b/eth1=eth1; c/eth1=eth1; [a/eth1]→[] 5 0s 0; [a/eth1]→[b/eth1] 0 10ms 0 only"},
		{"a pair that asks for more", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"capacity":5},{"to":["1"],"latency":10},{"to":["1"],"capacity":2}]`)}, "b": {interfaceItem("1", "lan", "", "")}},
			"a/eth1=eth1; b/eth1=eth1; [a/eth1]→[] 5 0s 0; [a/eth1]→[b/eth1] 0 10ms 0 only; [a/eth1]→[b/eth1] 2 0s 0 only"},
		{"a pair that asks for nothing", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"capacity":5},{"to":["1"]}]`)}, "b": {interfaceItem("1", "lan", "", "")}, "c": {interfaceItem("2", "lan", "", "")}},
			"a/eth1=eth1; b/eth1=eth1; c/eth1=eth1; [a/eth1]→[] 5 0s 0; [a/eth1]→[b/eth1] 0 0s 0 only"},
		{"all others in parts", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"capacity":5},{"latency":1}]`)}, "b": {interfaceItem("1", "lan", "", "")}}, "a/eth1=eth1; b/eth1=eth1; [a/eth1]→[] 5 1ms 0"},
		{"towards a missing interface", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"to":["1","0"],"latency":10}]`)}}, "a/eth1=eth1"},
		{"requested twice", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"latency":1},{"latency":1}]`)}, "b": {interfaceItem("1", "lan", "", "")}}, "a/eth1=eth1; b/eth1=eth1; [a/eth1]→[] 0 1ms 0"},
		{"nothing in many words", map[string][]string{"a": {interfaceItem("0", "lan", "", `,"properties":[{"to":["1"]},{"capacity":0}]`)}, "b": {interfaceItem("1", "lan", "", "")}}, "a/eth1=eth1; b/eth1=eth1"},
		{"on no link", map[string][]string{"a": {`{"client_id":"0"}`}}, "none"},
	} {
		var members []member
		for id, items := range tt.nodes {
			ifaces, err := parseInterfaces(items)
			if err != nil {
				t.Fatalf("%s: %v", tt.rule, err)
			}
			members = append(members, member{id, ifaces})
		}
		if got := describeLink(planLinks("s", members)[linkID("lan")]); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.rule, got, tt.want)
		}
	}
	alone, err := parseInterfaces([]string{`{"client_id":"0"}`, `{"client_id":"1","addresses":["10.0.0.1/24"]}`, `{"role":"control"}`})
	if err != nil {
		t.Fatal(err)
	}
	if links := planLinks("s", []member{{"a", alone}, {"b", alone}}); len(links) != 4 {
		t.Errorf("four interfaces that are on no link are %v", slices.Collect(maps.Keys(links)))
	}
}

// The size of a plan is bounded by the size of the nodes' interfaces.
func TestPlanSizeFollowsTheRequest(t *testing.T) {
	const nodes, named = 200, 1000
	list := func(f func(i int) string) string {
		var all []string
		for i := range named {
			all = append(all, f(i))
		}
		return `["` + strings.Join(all, `","`) + `"]`
	}
	for _, tt := range []struct{ rule, properties string }{
		{"others named again and again", `{"to":["twin"],"latency":1}` + strings.Repeat(`,{"to":["twin"],"latency":1}`, 60)},
		{"others that are there", `{"to":` + list(func(i int) string { return fmt.Sprint(i) }) + `,"latency":1}`},
		{"all but one", `{"capacity":1},{"to":["0"],"latency":1}`},
	} {
		var members []member
		asked := 0
		for i := range nodes {
			ifaces, err := parseInterfaces([]string{interfaceItem(fmt.Sprint(i), "lan", "", `,"properties":[`+tt.properties+`]`), interfaceItem("twin", "lan", "", "")})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range ifaces[0].properties {
				asked += 1 + len(p.To)
			}
			members = append(members, member{nodeName(i), ifaces})
		}
		planned := 0
		for _, s := range planLinks("s", members)[linkID("lan")].Shapes {
			planned += len(s.From) + len(s.To)
		}
		if planned > asked+nodes {
			t.Errorf("%s: %d shapes are planned, and %d were requested", tt.rule, planned, asked)
		}
	}
}

// trySetAll is a set of several nodes. It returns the errors by node.
func trySetAll(t *testing.T, tb *Testbed, noop bool, should map[string]provider.Resource) map[string]string {
	t.Helper()
	updates := []object{}
	for _, name := range slices.Sorted(maps.Keys(should)) {
		updates = append(updates, object{"name": name, "should": should[name]})
	}
	out, err := tb.set(json.RawMessage(toJSON(object{"updates": updates, "ral": object{"noop": noop}})))
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[string]string{}
	for _, c := range out["changes"].([]object) {
		if e, ok := c["error"].(map[string]any); ok {
			wrong[c["name"].(string)] = fmt.Sprint(e["kind"], ": ", e["message"])
		}
	}
	return wrong
}

// setAll is trySetAll, which must succeed.
func setAll(t *testing.T, tb *Testbed, should map[string]provider.Resource) {
	t.Helper()
	if wrong := trySetAll(t, tb, false, should); len(wrong) > 0 {
		t.Fatal(wrong)
	}
}

func TestRefusedLinks(t *testing.T) {
	const slow, office = `,"properties":[{"latency":1}]`, `,"shared_vlan":"office"`
	a, b, c := nodeName(1), nodeName(2), nodeName(3)
	twins := "failed: link lan has conflicting ends: a property names the interface 0, but several of its interfaces have that client_id; rename them"
	latency := "unsupported: link lan requests latency, which this host cannot provide: there is no clock"
	for _, tt := range []struct {
		rule   string
		shared []string
		asked  map[string]provider.Resource
		want   map[string]string
	}{
		{"a property that this host cannot make, named with its link", nil,
			map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", slow)), b: newLinkedNode("b", interfaceItem("1", "lan", "", "")), c: newLinkedNode("c", interfaceItem("2", "fast", "", ""))},
			map[string]string{a: latency, b: latency}},
		{"on none of the node's links", nil, map[string]provider.Resource{a: newLinkedNode("a", `{"client_id":"0","properties":[{"latency":1}]}`)},
			map[string]string{a: "unsupported: interface 0 requests latency, which this host cannot provide: there is no clock"}},
		{"a name that is no plain word", nil, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "my\nlan", "", slow))},
			map[string]string{a: `unsupported: link "my\nlan" requests latency, which this host cannot provide: there is no clock`}},
		{"a shared VLAN where there is none", nil, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", office))},
			map[string]string{a: "forbidden: link lan requests the shared VLAN office, and this testbed has none"}},
		{"another shared VLAN", []string{"lab", "hall"}, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", office))},
			map[string]string{a: "forbidden: link lan requests the shared VLAN office, which this testbed does not have; it has lab, hall"}},
		{"a shared VLAN that is allowed", []string{"office"}, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", office)), b: newLinkedNode("b", interfaceItem("1", "lan", "", office))}, map[string]string{}},
		{"nodes that contradict each other", []string{"office"}, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", "")), b: newLinkedNode("b", interfaceItem("1", "lan", "", office))},
			map[string]string{
				a: "failed: link lan has conflicting ends: one of its nodes has it on no shared VLAN, and another on the shared VLAN office",
				b: "failed: link lan has conflicting ends: one of its nodes has it on no shared VLAN, and another on the shared VLAN office",
			}},
		{"a property towards two at once", nil, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", "")), b: newLinkedNode("b", interfaceItem("0", "lan", "", "")), c: newLinkedNode("c", interfaceItem("1", "lan", "", `,"properties":[{"to":["0"],"capacity":1}]`))},
			map[string]string{a: twins, b: twins, c: twins}},
		{"a link of another slice", nil, map[string]provider.Resource{a: newLinkedNode("a", strings.Replace(interfaceItem("0", "lan", "", ""), sliceURN, sliceURN+"2", 1))},
			map[string]string{a: "failed: interface 0 is on a link of another slice than its node; a link joins nodes of one slice only; to join slices, use a shared VLAN"}},
		{"an item that cannot be read", nil, map[string]provider.Resource{a: newLinkedNode("a", "x"), b: newLinkedNode("b", interfaceItem("1", "lan", "", ""))},
			map[string]string{a: "failed: interface 1: it is not a JSON object"}},
	} {
		for _, noop := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.rule, " ", noop), func(t *testing.T) {
				h := newFakeHost(t)
				h.settings.SharedVLANs = tt.shared
				h.fails["latency"] = fmt.Errorf("there is no clock")
				tb, stop := h.run(-1)
				defer stop()
				if got := trySetAll(t, tb, noop, tt.asked); !maps.Equal(got, tt.want) {
					t.Errorf("refused are %q, want %q", got, tt.want)
				}
				for name := range tt.asked {
					if made := tb.node(name) != nil; made != (!noop && tt.want[name] == "") {
						t.Errorf("%s was made: %v", name, made)
					}
				}
			})
		}
	}
}

// The existing ends determine a link; later ones must not conflict with them.
func TestLateEndsMustNotConflict(t *testing.T) {
	h := newFakeHost(t)
	h.settings.SharedVLANs = []string{"office"}
	tb, stop := h.run(-1)
	defer stop()
	a, b := nodeName(1), nodeName(2)
	setAll(t, tb, map[string]provider.Resource{a: newLinkedNode("a", interfaceItem("0", "lan", "", `,"shared_vlan":"office"`))})
	awaitNode(t, tb, a, isReady)
	late := map[string]provider.Resource{b: newLinkedNode("b", interfaceItem("1", "lan", "", ""))}
	if wrong := trySetAll(t, tb, true, late); !strings.Contains(wrong[b], "link lan has conflicting ends") {
		t.Errorf("a dry run says %q", wrong)
	}
	if wrong := trySetAll(t, tb, true, map[string]provider.Resource{a: absent, b: late[b]}); len(wrong) > 0 {
		t.Errorf("a dry run in which the other goes says %q", wrong)
	}
	set(t, tb, a, absent)
	if wrong := trySetAll(t, tb, true, late); len(wrong) > 0 {
		t.Errorf("while the other goes: %q", wrong)
	}
	awaitNode(t, tb, a, provider.Gone)
	h.checkNothingLeft(t, tb)
}

// Two conflicting nodes that were accepted at the same moment are not connected. A node that
// fits once another is removed waits for that.
func TestEndsAcceptedAtOnceMustNotConflict(t *testing.T) {
	h := newFakeHost(t)
	h.settings.SharedVLANs = []string{"office"}
	tb, stop := h.run(-1)
	defer stop()
	a, b := nodeName(1), nodeName(2)
	should := map[string]provider.Resource{
		a: newLinkedNode("a", interfaceItem("0", "lan", "", `,"shared_vlan":"office"`)),
		b: newLinkedNode("b", interfaceItem("1", "lan", "", "")),
	}
	accept := func(name string) { // as set does after checking both
		t.Helper()
		text, err := json.Marshal(object{"name": name, "should": should[name]})
		var u update
		if err == nil {
			err = json.Unmarshal(text, &u)
		}
		if err == nil {
			_, err = tb.applyUpdate(u, []string{"host"}, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	accept(a)
	awaitNode(t, tb, a, isReady)
	accept(b)
	r := awaitNode(t, tb, b, func(r provider.Resource) bool { return r.Text(provider.AttrState) == provider.StateFailed })
	if got := r.Text(provider.AttrMessage); !strings.Contains(got, "link lan has conflicting ends: one of its nodes has it on the shared VLAN office, and another on no shared VLAN") {
		t.Errorf("it failed with %q", got)
	}
	if got := h.attachedEnds(sliceURN, "lan"); len(got) != 1 {
		t.Errorf("on the link are %v", got)
	}
	hang := make(chan struct{})
	h.mu.Lock()
	h.slow["remove"] = hang
	h.mu.Unlock()
	set(t, tb, a, absent)
	set(t, tb, b, provider.Resource{"restart_serial": "1"})
	time.Sleep(30 * time.Millisecond)
	if r := getNode(tb, b); r.Text(provider.AttrState) != provider.StateChanging {
		t.Errorf("while the other goes it is %v", r)
	}
	h.mu.Lock()
	delete(h.slow, "remove")
	h.mu.Unlock()
	close(hang)
	awaitNode(t, tb, b, isReady)
	awaitNode(t, tb, a, provider.Gone)
}
