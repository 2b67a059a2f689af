package lxd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// TestLinkProperties checks which properties a LAN of a, b and c can have. m1 and m2 have netem; c
// is on m3.
func TestLinkProperties(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		a, b, c string // properties
		refused string // the node that is refused, or "link"
		says    string
	}{
		{"no properties", "", "", "", "", ""},
		{"the same capacity", `{"capacity":5}`, `{"capacity":5}`, `{"capacity":5}`, "", ""},
		{"one sender is limited", `{"capacity":5}`, "", "", "link", "capacity that differs between the senders"},
		{"one receiver is limited", `{"to":["b"],"capacity":5}`, "", `{"to":["b"],"capacity":5}`, "", ""},
		{"one sender is late", `{"latency":10}`, `{}`, "", "", ""},
		{"one receiver is late", `{"to":["b"],"latency":10}`, "", "", "link", "latency or packet_loss that differs between the receivers"},
		{"all receivers are late", `{"to":["b"],"latency":10},{"to":["c"],"latency":10}`, "", "", "", ""},
		{"two latencies", `{"to":["b"],"latency":10},{"to":["c"],"latency":20}`, "", "", "a", "latency or packet_loss that differs between the receivers"},
		{"late, and without loss for one", `{"latency":10,"packet_loss":1},{"to":["c"],"latency":10}`, "", "", "a", "latency or packet_loss that differs"},
		{"a member without netem", "", "", `{"latency":10}`, "c", "link lan asks for latency, which cannot be made on m3"},
		{"loss on a member without netem", "", "", `{"packet_loss":10}`, "c", "link lan asks for packet_loss, which cannot be made on m3"},
		{"too late", `{"latency":60001}`, "", "", "a", "a latency of 60001 ms, which is not between 0 and 60000"},
		{"a negative latency", `{"latency":-1}`, "", "", "a", "a latency of -1 ms"},
		{"more than all frames", `{"packet_loss":101}`, "", "", "a", "a packet_loss of 101 %"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := defaultSettings()
			s.Netem = []string{"m1", "m2"}
			nodes, refused, message := map[string]*node{}, "", ""
			for k, properties := range []string{tt.a, tt.b, tt.c} {
				name := string('a' + rune(k))
				n := &node{Name: name, Component: fmt.Sprintf("m%d", k+1), Interfaces: []string{fmt.Sprintf(`{"client_id":%q,"link":"lan","slice":"s","properties":[%s]}`, name, properties)}}
				nodes[name] = n
				if err := s.check(n); err != nil {
					refused, message = name, err.Error()
				}
			}
			if err := endsOf(nodes).check("s lan"); err != nil && refused == "" {
				refused, message = "link", err.Error()
			}
			if refused != tt.refused || !strings.Contains(message, tt.says) || refused != "" && !strings.HasPrefix(message, "link lan asks for ") {
				t.Errorf("%q is refused: %s", refused, message)
			}
		})
	}
}

// TestNetemInTheNode checks that a node gets latency and loss of its own interfaces and reports the
// emulator.
func TestNetemInTheNode(t *testing.T) {
	n := &node{Interfaces: []string{`{"client_id":"a","link":"lan","slice":"s","properties":[{"capacity":5,"latency":12.5,"packet_loss":0.1}]}`}}
	all, err := n.interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := all[0].netem(); p != (netem{12500 * time.Microsecond, 0.1}) || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if r := n.reportedInterfaces(); !strings.Contains(r[0], `"emulator":"lxd+netem"`) {
		t.Error(r)
	}
}

// TestLinkKeepsItsBridge has two nodes join a link while the node that was on it leaves.
func TestLinkKeepsItsBridge(t *testing.T) {
	_, dir := newFake(t)
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(p)
	link := []iface{{Link: "lan", Slice: "s"}}
	existing := []instance{{Config: map[string]string{keyFacts: `{"bridges":{"s lan":"pbl001"}}`}}}
	for n := range 2 {
		got, err := w.chooseBridges(t.Context(), link, existing, ends{"s lan": link})
		if err != nil || got["s lan"] != "pbl001" {
			t.Errorf("node %d is on %v, %v", n, got, err)
		}
		existing = nil
	}
	if got, err := w.chooseBridges(t.Context(), nil, nil, nil); len(got)+len(w.bridges) > 0 || err != nil {
		t.Errorf("the link without nodes keeps %v %v, %v", got, w.bridges, err)
	}
}

// TestLinkIsCheckedWithAllItsNodes checks that a node that joins a link is refused if the link's properties
// would then differ between its nodes.
func TestLinkIsCheckedWithAllItsNodes(t *testing.T) {
	f, dir := newFake(t)
	f.setting(t, dir, "netem: [m1]\n")
	with := func(id, properties string) object {
		o := object{}
		for k, v := range present {
			o[k] = v
		}
		o["interfaces"] = []string{fmt.Sprintf(`{"client_id":%q,"link":"lan","slice":"s"%s}`, id, properties)}
		return o
	}
	if kind, message := set(t, dir, false, with("n1:0", `,"properties":[{"to":["n2:0"],"latency":5}]`)); kind != "" {
		t.Fatalf("%s %q", kind, message)
	}
	finish(t, dir)
	if got := f.hosts[instanceName(testID)]; !strings.Contains(got, `"Delay":5000000`) {
		t.Errorf("the node has %q", got)
	}
	for id, want := range map[string]provider.Kind{"n2:0": "", "n3:0": provider.Unsupported} {
		release := claim(t, dir)
		o := call(t, dir, "set", object{"updates": []object{{"name": strings.Replace(testID, "1", "2", 1), "should": with(id, "")}}, "ral": object{"noop": true}})
		release()
		if got := fmt.Sprint(o["changes"]); strings.Contains(got, string(provider.Unsupported)) != (want != "") {
			t.Errorf("%s: %s", id, got)
		}
	}
}
