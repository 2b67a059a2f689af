package draw

import (
	"strings"
	"testing"

	"patchbay/rspec/view"
)

func TestUnitsAreForPeople(t *testing.T) {
	for _, c := range []struct {
		f        func(string) string
		in, want string
	}{
		{capacity, "100000", "100 Mbit/s"}, {capacity, "1500", "1.5 Mbit/s"}, {capacity, "64", "64 kbit/s"},
		{capacity, "10000000", "10 Gbit/s"}, {capacity, "10000000kbps", "10 Gbit/s"}, {capacity, "0", ""}, {capacity, "", ""},
		{capacity, "fast", "fast"}, {capacity, "-5", "-5"}, {capacity, "NaN", "NaN"}, {capacity, "1e999", "1e999"},
		{latency, "10", "10 ms"}, {latency, "0.25", "250 µs"}, {latency, "2000", "2 s"}, {latency, "0", ""},
		{loss, "1", "1 % loss"}, {loss, "0.05", "0.05 % loss"}, {loss, "2.5", "2.5 % loss"}, {loss, "", ""}, {loss, "some", "some loss"},
	} {
		if got := c.f(c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestLabelsDoNothing(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"Blanks", " a \n\t b ", "a b"},
		{"Override", "user\u202etxt.exe", "user\ufffdtxt.exe"},
		{"Escape", "\x1b[31mred\u009b", "\ufffd[31mred\ufffd"},
		{"ZeroWidth", "pay\u200bpal", "pay\ufffdpal"},
		{"PiledMarks", "e\u0301\u0301\u0301\u0301", "e\u0301\u0301"},
		{"Long", strings.Repeat("x", 300), strings.Repeat("x", maxText) + "…"},
		{"OtherScripts", "节点 узел", "节点 узел"},
		{"BrokenUTF8", "a\xffb", "a\ufffdb"},
	} {
		if got := cleaned(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestNodesBehindAGateway proves that the login of a node is never that of its gateway.
func TestNodesBehindAGateway(t *testing.T) {
	gateway, inside := view.Login{User: "gw", Host: "gateway.example.org", Port: "20000"}, view.Login{User: "alice", Host: "10.1.2.3"}
	proxy := view.Proxy{Gateway: "gw@gateway.example.org:20000", Login: "alice@10.1.2.3:22"}
	const through = "ssh -o 'ProxyCommand=ssh -i KEY -W [%h]:%p -p 20000 gw@gateway.example.org' -i KEY alice@10.1.2.3"
	for _, c := range []struct {
		rule        string
		logins      []view.Login
		proxies     []view.Proxy
		text, label string
	}{
		{"gateway first", []view.Login{gateway, inside}, []view.Proxy{proxy}, through, "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"gateway last", []view.Login{inside, gateway}, []view.Proxy{proxy}, through, "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"another login without a gateway", []view.Login{gateway, inside, {User: "bob", Host: "pc1", Port: "22"}}, []view.Proxy{proxy}, through + " (and 1 more login)", "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"no gateway", []view.Login{inside}, nil, "ssh -i KEY alice@10.1.2.3", "ssh alice@10.1.2.3"},
		{"a hostile gateway", []view.Login{inside}, []view.Proxy{{Gateway: "gw@-oProxyCommand=id:22", Login: "alice@10.1.2.3:22"}}, "ssh -i KEY alice@10.1.2.3", "ssh alice@10.1.2.3"},
		{"none that is safe", []view.Login{{User: "a", Host: "h;reboot", Port: "22"}}, nil, "a@h;reboot:22", "a@h;reboot:22"},
	} {
		n := &view.Node{Name: "n", Logins: c.logins, Proxies: c.proxies}
		if got := new(textWriter).loginCommand(n); got != c.text {
			t.Errorf("%s: text %q, want %q", c.rule, got, c.text)
		}
		if got := commands(n, "")[0]; got != c.label {
			t.Errorf("%s: label %q, want %q", c.rule, got, c.label)
		}
	}
}

func property(source, dest, capacity, latency, loss string) view.Property {
	return view.Property{Source: source, Dest: dest, Capacity: capacity, Latency: latency, Loss: loss}
}

func TestPropertyTexts(t *testing.T) {
	d := &view.Document{Nodes: []view.Node{{Name: "left"}, {Name: "right"}}}
	ends := []view.End{{Name: "a"}, {Name: "b", Node: 1}}
	both := []view.Property{{Source: "a", Dest: "b", Capacity: "1 Gbit/s"}, {Source: "b", Dest: "a", Capacity: "1 Gbit/s"}}
	apart := []view.Property{{Source: "b", Dest: "a", Capacity: "1 Mbit/s"}, {Source: "a", Dest: "b", Capacity: "1 Gbit/s", Latency: "2 ms"}}
	three := append(ends[:2:2], view.End{Name: "c", Node: 1})
	var all []view.Property
	for _, x := range three {
		for _, y := range three {
			if x.Name != y.Name {
				all = append(all, view.Property{Source: x.Name, Dest: y.Name, Capacity: "1 Gbit/s"})
			}
		}
	}
	for _, c := range []struct {
		name string
		link view.Link
		want string
	}{
		{"None", view.Link{Ends: ends}, ""},
		{"Empty", view.Link{Ends: ends, Properties: []view.Property{{}}}, ""},
		{"BothWays", view.Link{Ends: ends, Properties: both}, "1 Gbit/s"},
		{"EachWayApart", view.Link{Ends: ends, Properties: apart}, "left → right 1 Gbit/s, 2 ms; right → left 1 Mbit/s"},
		{"EachWayInOneNode", view.Link{Ends: []view.End{{Name: "a", Node: 1}, {Name: "b", Node: 1}}, Properties: apart}, "a → b 1 Gbit/s, 2 ms; b → a 1 Mbit/s"},
		{"OfOtherEnds", view.Link{Ends: []view.End{{Name: "c"}, {Name: "d", Node: 1}}, Properties: apart}, "1 Mbit/s–1 Gbit/s, 2 ms, directions differ"},
		{"PairsOfALANDiffer", view.Link{Ends: three, Properties: []view.Property{property("a", "b", "5 Mbit/s", "10 ms", "1"), property("b", "a", "50 Mbit/s", "900 µs", "0.5"), property("c", "a", "7 Mbit/s", "", "")}},
			"5–50 Mbit/s, 900 µs–10 ms, 0.5–1 % loss, pairs differ"},
		{"OnePairOfALAN", view.Link{Ends: three, Properties: both}, "1 Gbit/s, pairs differ"},
		{"AllPairsOfALAN", view.Link{Ends: three, Properties: all}, "1 Gbit/s"},
		{"AllPairsByTheLinksName", view.Link{Name: "lan", Ends: three, Properties: []view.Property{property("a", "lan", "5 Mbit/s", "", ""), property("lan", "a", "5 Mbit/s", "", ""),
			property("b", "c", "5 Mbit/s", "", ""), property("c", "b", "5 Mbit/s", "", "")}}, "5 Mbit/s"},
		{"AllButOneByTheLinksName", view.Link{Name: "lan", Ends: three, Properties: []view.Property{property("a", "lan", "5 Mbit/s", "", ""), property("lan", "a", "5 Mbit/s", "", ""),
			property("b", "c", "5 Mbit/s", "", "")}}, "5 Mbit/s, pairs differ"},
		{"NoQuantities", view.Link{Ends: three, Properties: []view.Property{property("a", "b", "much", "", ""), property("b", "a", "5 Mbit/s", "", "")}}, "5 Mbit/s and others, pairs differ"},
	} {
		if got := propertyText(d, &c.link); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
