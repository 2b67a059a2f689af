package testbed

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"patchbay/inventory/provider"
)

func TestInterfacesAreReportedAsRequested(t *testing.T) {
	all, err := parseInterfaces([]string{
		`{"client_id":"a:0","link":"lan","slice":"s","addresses":["10.0.0.1/24","fd00::1/64"],"vlan":7,"later":{"x":[1]},"mac":"02:00:00:00:00:01","emulator":"x","rx_bytes":1,
		  "shared_vlan":"office","properties":[{"to":["b:0"],"capacity":1000,"latency":2.5,"packet_loss":1}],"LINK":"other"}`,
		`{"role":"control","public_address":"192.0.2.1"}`,
		`{"client_id":"a:1"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := all[0]
	if a.clientID != "a:0" || a.link != "lan" || a.shared != "office" || fmt.Sprint(a.addresses) != "[10.0.0.1/24 fd00::1/64]" || fmt.Sprint(a.properties) != "[{[b:0] 1000 2.5 1}]" {
		t.Errorf("%+v", a)
	}
	if got := []string{all[0].name, all[1].name, all[2].name}; fmt.Sprint(got) != "[eth1  eth2]" {
		t.Errorf("in the node they are called %q", got)
	}
	if !strings.Contains(a.text, `"later":{"x":[1]}`) || !strings.Contains(a.text, `"vlan":7`) || strings.Contains(a.text, "mac") || strings.Contains(a.text, "rx_bytes") {
		t.Errorf("it is kept as %s", a.text)
	}
	again, err := parseInterfaces(interfaceTexts(all))
	if err != nil || fmt.Sprint(again) != fmt.Sprint(all) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if a, b := macOf("n", "a"), macOf("n", "b"); a.String() == b.String() || a[0] != 2 || len(a) != 6 || macOf("n", "a").String() != a.String() {
		t.Errorf("hardware addresses %v, %v", a, b)
	}
}

func TestRefusedInterfaces(t *testing.T) {
	many := func(n int, item func(i int) string) []string {
		var all []string
		for i := range n {
			all = append(all, item(i))
		}
		return all
	}
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	client := func(i int) string { return fmt.Sprintf(`{"client_id":"%d"}`, i) }
	one := func(more string) []string { return []string{`{"client_id":"a","link":"l"` + more + `}`} }
	property := func(text string) []string { return one(`,"properties":[` + text + `]`) }
	for _, tt := range []struct {
		rule           string
		bad, neighbour []string
		want           string
	}{
		{"no JSON", []string{`x`}, one(""), "interface 1: it is not a JSON object"},
		{"null", []string{`null`}, one(""), "interface 1: it is not a JSON object"},
		{"a list", []string{`[]`}, one(""), "interface 1: it is not a JSON object"},
		{"no client_id", []string{`{"link":"l"}`}, one(""), "interface 1: it has no client_id"},
		{"another type", []string{`{"client_id":1}`}, one(""), "interface 1: client_id is not a text"},
		{"too many", many(65, client), many(64, client), "there are more than 64 interfaces, the maximum of a node"},
		{"too many public addresses", many(65, func(int) string { return `{"role":"control"}` }), many(64, func(int) string { return `{"role":"control"}` }), "there are more than 64 public addresses"},
		{"two of one name", append(one(""), one("")...), append(one(""), `{"client_id":"b"}`), "interface 2: another interface has the client_id a; rename one"},
		{"long names", one(`,"shared_vlan":"` + strings.Repeat("x", 257) + `"`), one(`,"shared_vlan":"` + strings.Repeat("x", 256) + `"`), "interface 1: client_id, link and shared_vlan can have at most 256 bytes, and one has more"},
		{"a long slice", one(`,"slice":"` + strings.Repeat("x", 1025) + `"`), one(`,"slice":"` + strings.Repeat("x", 1024) + `"`), "interface 1: slice can have at most 1024 bytes, and has 1025"},
		{"too much of everything", one(`,"x":"` + strings.Repeat("x", maxInterfaceBytes) + `"`), one(`,"x":"` + strings.Repeat("x", maxInterfaceBytes-40) + `"`), "the interfaces have more than 262144 bytes of names, addresses and properties"},
		{"too much once it is kept", one(`,"x":"` + strings.Repeat("<", maxInterfaceBytes/6) + `"`), one(`,"x":"` + strings.Repeat("<", maxInterfaceBytes/6-10) + `"`), "the interfaces have more than 262144 bytes of names, addresses and properties"},
		{"a shared VLAN without a link", []string{`{"client_id":"a","shared_vlan":"x"}`}, one(`,"shared_vlan":"x"`), "interface 1: it has a shared_vlan but no link"},
		{"no address", one(`,"addresses":["10.0.0.1"]`), one(`,"addresses":["10.0.0.1/32"]`), `interface 1: "10.0.0.1" is not an address with a prefix length, such as 10.128.0.1/24`},
		{"an address that leads elsewhere", one(`,"addresses":["127.0.0.2/8"]`), one(`,"addresses":["128.0.0.2/8"]`), "interface 1: 127.0.0.2/8 cannot be the address of an interface"},
		{"a multicast address", one(`,"addresses":["ff02::1/64"]`), one(`,"addresses":["fe80::1/64"]`), "interface 1: ff02::1/64 cannot be the address of an interface"},
		{"everything as network", one(`,"addresses":["10.0.0.1/0"]`), one(`,"addresses":["10.0.0.1/1"]`), "interface 1: 10.0.0.1/0 cannot be the address of an interface"},
		{"an address twice", one(`,"addresses":["10.0.0.1/8","10.0.0.1/16"]`), one(`,"addresses":["10.0.0.1/8","10.0.0.2/16"]`), "interface 1: it has the address 10.0.0.1 twice; remove one"},
		{"too many addresses", one(`,"addresses":[` + list(65, `"10.0.0.1/8"`) + `]`), nil, "interface 1: it has 65 addresses, at most 64 are allowed"},
		{"too many properties", property(list(4097, `{}`)), property(list(4096, `{}`)), "the interfaces have more than 4096 properties, the maximum of a node"},
		{"half a kbit", property(`{"capacity":0.5}`), property(`{"capacity":5}`), "interface 1: properties is not a list of objects with whole kbit/s, numbers of ms and per cent"},
		{"no number", property(`{"latency":"1"}`), property(`{"latency":1}`), "interface 1: properties is not a list of objects with whole kbit/s, numbers of ms and per cent"},
		{"beyond all numbers", property(`{"latency":1e999}`), property(`{"latency":1e3}`), "interface 1: properties is not a list of objects with whole kbit/s, numbers of ms and per cent"},
		{"less than nothing", property(`{"capacity":-1}`), property(`{"capacity":0}`), "interface 1: a capacity is -1 kbit/s; it must be from 0 to 1000000000000"},
		{"years", property(`{"latency":3600001}`), property(`{"latency":3600000}`), "interface 1: a latency is 3.600001e+06 ms; it must be from 0 to 3600000"},
		{"more than all", property(`{"packet_loss":100.5}`), property(`{"packet_loss":100}`), "interface 1: a packet_loss is 100.5 per cent; it must be from 0 to 100"},
		{"an empty client_id", property(`{"to":[""]}`), property(`{"to":["b"]}`), "interface 1: a property names an interface whose client_id does not have 1 to 256 bytes"},
		{"the same again", property(`{"to":["b","c","b"]}`), property(`{"to":["b","c"]},{"to":["b"]}`), "interface 1: a property names b twice; remove one"},
		{"more than a link has", property(propertyTowards(maxTowards + 1)), property(propertyTowards(maxTowards)), "interface 1: a property names 1001 interfaces, at most 1000 are allowed; name none to apply it towards all others"},
		{"two answers", property(`{"to":["b","c"],"latency":1},{"to":["c"],"latency":2}`), property(`{"to":["b","c"],"latency":1},{"to":["c"],"latency":1,"capacity":1},{"latency":2}`), "interface 1: latency towards c is requested as both 1 and 2"},
		{"two answers for all", property(`{"capacity":1},{"capacity":2}`), property(`{"capacity":1},{"latency":2}`), "interface 1: capacity towards all others is requested as both 1 and 2"},
	} {
		if _, err := parseInterfaces(tt.bad); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.rule, err, tt.want)
		}
		if _, err := parseInterfaces(tt.neighbour); err != nil {
			t.Errorf("%s: its neighbour: %v", tt.rule, err)
		}
	}
}

// propertyTowards returns a property towards n interfaces.
func propertyTowards(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return `{"to":["` + strings.Join(names, `","`) + `"]}`
}

func FuzzInterfaces(f *testing.F) {
	f.Add(interfaceItem("a", "lan", "10.0.0.1/24", `,"properties":[{"to":["b"],"capacity":1,"latency":0.5,"packet_loss":2}],"shared_vlan":"x"`))
	f.Add(`{"role":"control","public_address":"192.0.2.1"}`)
	f.Add(`{"client_id":"\u0000","link":"\ud800","mac":{}}`)
	f.Fuzz(func(t *testing.T, item string) {
		all, err := parseInterfaces([]string{item, `{"client_id":"other","link":"lan"}`})
		if err != nil {
			return
		}
		again, err := parseInterfaces(interfaceTexts(all))
		if err != nil || fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", all) {
			t.Fatalf("%q is kept as %q, and read again as %+v (%v) instead of %+v", item, interfaceTexts(all), again, err, all)
		}
		for id, l := range planLinks(sliceID("s"), []member{{"n1", all}, {"n2", all}}) {
			if len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || len(l.Ends) == 0 {
				t.Fatalf("link %q has %d ends", id, len(l.Ends))
			}
			seen := map[string]bool{}
			for _, e := range l.Ends {
				if seen[e.ID] {
					t.Fatalf("%s occurs twice", e.ID)
				}
				seen[e.ID] = true
			}
			for _, s := range l.Shapes {
				for _, id := range append(s.From, s.To...) {
					if !seen[id] {
						t.Fatalf("a shape names %s", id)
					}
				}
			}
		}
		nc := &nodeController{id: "n1"}
		nc.ifaces.Store(&all)
		nc.net.Store(&network{})
		for i, item := range nc.interfaceItems() {
			if mac := (provider.Resource{"interfaces": []string{item}}); len(provider.ObservedNode(mac).MACs) == 0 && !all[i].control {
				t.Fatalf("%q has no mac", item)
			}
		}
	})
}
