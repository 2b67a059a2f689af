package faithful_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// refusals are the reasons for which a well-formed request of version 3 may be
// refused, as rules over the document; a request for which none holds must be
// read. Each names what is at fault.
var refusals = []struct {
	name  string
	kind  rspec.Kind
	finds func(r *reading) []*elem
}{
	{"an own node without client_id", rspec.BadArgs, func(r *reading) []*elem { return without(r.nodes, "client_id") }},
	{"an own node's client_id twice", rspec.BadArgs, func(r *reading) []*elem {
		return twice(r.nodes, append(r.nodes[:len(r.nodes):len(r.nodes)], r.foreign...), "client_id")
	}},
	{"an own node bound to what is no URN", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, n := range r.nodes {
			if id := strings.TrimSpace(n.get("component_id")); id != "" {
				if _, err := urn.Parse(id); err != nil {
					list = append(list, n)
				}
			}
		}
		return list
	}},
	{"exclusive is no boolean", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, n := range r.nodes {
			switch strings.Trim(n.get("exclusive"), blank) {
			case "", "0", "1", "true", "false":
			default:
				list = append(list, n)
			}
		}
		return list
	}},
	{"an interface without client_id", rspec.BadArgs, func(r *reading) []*elem { return without(r.interfaces(), "client_id") }},
	{"an interface's client_id twice", rspec.BadArgs, func(r *reading) []*elem {
		all := r.interfaces()
		for _, n := range r.foreign {
			all = append(all, n.all(core, "interface")...)
		}
		return twice(r.interfaces(), all, "client_id")
	}},
	{"an address that is none", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, i := range r.interfaces() {
			for _, ip := range i.all(core, "ip") {
				if _, ok := address(ip); !ok && strings.TrimSpace(ip.get("address")) != "" {
					list = append(list, i)
				}
			}
		}
		return list
	}},
	{"an address that no interface can have", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, i := range r.interfaces() {
			for _, ip := range i.all(core, "ip") {
				if a, ok := address(ip); ok && !usable(a, strings.TrimSpace(ip.get("netmask"))) {
					list = append(list, i)
				}
			}
		}
		return list
	}},
	{"an address of another type", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, i := range r.interfaces() {
			for _, ip := range i.all(core, "ip") {
				kind := strings.ToLower(strings.TrimSpace(ip.get("type")))
				if a, ok := address(ip); ok && (kind == "ipv4" && !a.Is4() || kind == "ipv6" && a.Is4()) {
					list = append(list, i)
				}
			}
		}
		return list
	}},
	{"a sliver_type without a name", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, n := range r.nodes {
			for _, s := range n.all(core, "sliver_type") {
				if strings.TrimSpace(s.get("name")) == "" {
					list = append(list, n)
				}
			}
		}
		return list
	}},
	{"a command or url that is too long", rspec.TooBig, func(r *reading) (list []*elem) {
		for _, n := range r.nodes {
			if slices.ContainsFunc(services(n), func(s *elem) bool {
				return len(s.get("command")) > 64<<10 || len(strings.TrimSpace(s.get("url"))) > 64<<10
			}) {
				list = append(list, n)
			}
		}
		return list
	}},
	{"too many services on a node", rspec.TooBig, func(r *reading) (list []*elem) {
		for _, n := range r.nodes {
			if len(services(n)) > 200 {
				list = append(list, n)
			}
		}
		return list
	}},
	{"a link twice at one interface", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.ownLinks() {
			seen := map[string]bool{}
			for _, ref := range l.all(core, "interface_ref") {
				if id := ref.get("client_id"); seen[id] {
					list = append(list, l)
				} else {
					seen[id] = true
				}
			}
		}
		return list
	}},
	{"a property from an interface to itself", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.links {
			for _, p := range l.all(core, "property") {
				if p.get("source_id") == p.get("dest_id") && p.get("capacity")+p.get("latency")+p.get("packet_loss") != "" {
					list = append(list, l)
				}
			}
		}
		return list
	}},
	{"a link without client_id", rspec.BadArgs, func(r *reading) []*elem { return without(r.ownLinks(), "client_id") }},
	{"a link's client_id twice", rspec.BadArgs, func(r *reading) []*elem {
		return twice(r.ownLinks(), r.d.root.all(core, "link"), "client_id")
	}},
	{"a link without interfaces", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.ownLinks() {
			if len(l.all(core, "interface_ref")) == 0 {
				list = append(list, l)
			}
		}
		return list
	}},
	{"an interface_ref to nothing", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.ownLinks() {
			for _, ref := range l.all(core, "interface_ref") {
				if r.bearer[ref.get("client_id")] == nil {
					list = append(list, l)
				}
			}
		}
		return list
	}},
	{"an address twice on a link", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.links {
			seen := map[netip.Addr]string{}
			for _, ref := range l.all(core, "interface_ref") {
				id := ref.get("client_id")
				bearer := r.bearer[id]
				if bearer == nil {
					continue
				}
				for _, i := range bearer.all(core, "interface") {
					if i.get("client_id") != id {
						continue
					}
					for _, ip := range i.all(core, "ip") {
						a, ok := address(ip)
						if !ok {
							continue
						}
						if other, ok := seen[a.Unmap()]; ok && other != id {
							list = append(list, l)
						}
						seen[a.Unmap()] = id
					}
				}
			}
		}
		return list
	}},
	{"an interface at the end of two links", rspec.BadArgs, func(r *reading) (list []*elem) {
		taken := map[string]*elem{}
		for _, l := range r.ownLinks() {
			for _, ref := range l.all(core, "interface_ref") {
				id := ref.get("client_id")
				if other := taken[id]; other != nil && other != l {
					list = append(list, l)
				}
				taken[id] = l
			}
		}
		return list
	}},
	{"a shared VLAN without a name", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.links {
			for _, v := range sharedVLANs(l) {
				if strings.TrimSpace(v.get("name")) == "" {
					list = append(list, l)
				}
			}
		}
		return list
	}},
	{"two shared VLANs on one link", rspec.Unsupported, func(r *reading) (list []*elem) {
		for _, l := range r.links {
			for _, v := range sharedVLANs(l) {
				if v.get("name") != sharedVLANs(l)[0].get("name") {
					list = append(list, l)
				}
			}
		}
		return list
	}},
	{"a property with what is no number", rspec.BadArgs, func(r *reading) (list []*elem) {
		for _, l := range r.links {
			for _, p := range l.all(core, "property") {
				for _, name := range []string{"capacity", "latency", "packet_loss"} {
					if s := strings.TrimSpace(p.get(name)); s != "" {
						if v, err := strconv.ParseFloat(s, 64); err != nil || v < 0 {
							list = append(list, l)
						}
					}
				}
			}
		}
		return list
	}},
	{"a link between our nodes and others'", rspec.Unsupported, func(r *reading) (list []*elem) {
		for _, l := range r.d.root.all(core, "link") {
			if mine, others := r.ends(l); mine > 0 && others > 0 {
				list = append(list, l)
			}
		}
		return list
	}},
}

func (r *reading) interfaces() (list []*elem) {
	for _, n := range r.nodes {
		list = append(list, n.all(core, "interface")...)
	}
	return list
}

// sharedVLANs are those that a link asks for, in either spelling. An interface at
// its end may ask for one of its own, which is only copied.
func sharedVLANs(l *elem) []*elem {
	return append(l.all("http://www.geni.net/resources/rspec/ext/shared-vlan/1", "link_shared_vlan"),
		l.all("http://www.protogeni.net/resources/rspec/ext/shared-vlan/1", "link_shared_vlan")...)
}

// ownLinks are those that touch a node of ours, and those that touch nobody's
// and name no other manager.
func (r *reading) ownLinks() (list []*elem) {
	for _, l := range r.d.root.all(core, "link") {
		mine, others := r.ends(l)
		ours := true
		for _, m := range l.all(core, "component_manager") {
			ours = r.isManager(m.get("name"))
			if ours {
				break
			}
		}
		if mine > 0 || others == 0 && ours && len(r.nodes) > 0 {
			list = append(list, l)
		}
	}
	return list
}

func without(list []*elem, name string) (found []*elem) {
	for _, e := range list {
		if e.get(name) == "" {
			found = append(found, e)
		}
	}
	return found
}

// twice are those of list whose name occurs twice in all.
func twice(list, all []*elem, name string) (found []*elem) {
	count := map[string]int{}
	for _, e := range all {
		count[e.get(name)]++
	}
	for _, e := range list {
		if v := e.get(name); v != "" && count[v] > 1 {
			found = append(found, e)
		}
	}
	return found
}

// address reads an address and its netmask.
func address(ip *elem) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSpace(ip.get("address")))
	if err != nil || a.Zone() != "" {
		return a, false
	}
	mask := strings.TrimSpace(ip.get("netmask"))
	if bits, err := strconv.Atoi(strings.TrimPrefix(mask, "/")); err == nil {
		return a, bits >= 0 && bits <= a.BitLen()
	}
	if mask == "" {
		return a, true
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() || !a.Is4() {
		return a, false
	}
	bits, ended := m.As4(), false
	for i := range 32 {
		one := bits[i/8]&(0x80>>(i%8)) != 0
		if one && ended {
			return a, false
		}
		ended = ended || !one
	}
	return a, true
}

// usable tells whether an interface can have an address: it is no group's and not
// this host's, and, where the netmask is told, names neither network nor all.
func usable(a netip.Addr, mask string) bool {
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		return false
	}
	m, err := netip.ParseAddr(mask)
	if err != nil {
		bits, err := strconv.Atoi(strings.TrimPrefix(mask, "/"))
		if err != nil || !a.Is4() {
			return true
		}
		m = netip.AddrFrom4([4]byte{255, 255, 255, 255})
		all := m.As4()
		for i := bits; i < 32; i++ {
			all[i/8] &^= 0x80 >> (i % 8)
		}
		m = netip.AddrFrom4(all)
	}
	host, mine, zero, ones := m.As4(), a.As4(), true, true
	if host[3] >= 254 {
		return true // such networks have only hosts
	}
	for i := range host {
		zero = zero && mine[i]&^host[i] == 0
		ones = ones && mine[i]|host[i] == 255
	}
	return !zero && !ones
}

// services are what is to be installed and executed on a node.
func services(n *elem) (list []*elem) {
	for _, s := range n.all(core, "services") {
		list = append(append(list, s.all(core, "install")...), s.all(core, "execute")...)
	}
	return list
}

// expected checks a refusal, or that there is none, against the table: each
// problem has a reason there and lies in what is at fault, and each reason that
// holds is told. It gives the reasons.
func expected(d *doc, managers []urn.URN, err error) (reasons []string, wrong error) {
	r := read(d, managers)
	var problems []rspec.Problem
	more := 0
	if err != nil {
		e, ok := errors.AsType[*rspec.RequestError](err)
		if !ok {
			return nil, fmt.Errorf("a %T: %w", err, err)
		}
		problems, more = e.Problems, e.More
	}
	explained := make([]bool, len(problems))
	for _, row := range refusals {
		found := row.finds(r)
		told := len(found) == 0
		for _, f := range found {
			for i, p := range problems {
				if at := d.offset(p.Line, p.Column); p.Kind == row.kind && f.start <= at && at < f.end {
					explained[i], told = true, true
				}
			}
		}
		if len(found) > 0 {
			reasons = append(reasons, row.name)
		}
		if !told && more == 0 {
			return reasons, fmt.Errorf("nobody says that there is %s: %s (%w)", row.name, found[0].path(), err)
		}
	}
	for i, ok := range explained {
		if !ok {
			return reasons, fmt.Errorf("no rule refuses this: %+v; those that hold: %q", problems[i], reasons)
		}
	}
	return reasons, nil
}

// offset is where a line and column are.
func (d *doc) offset(line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(d.b[at:], '\n')
		if n < 0 {
			return -1
		}
		at += n + 1
	}
	if at == 0 && bytes.HasPrefix(d.b, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	for ; column > 1 && at < len(d.b); column-- {
		_, n := utf8.DecodeRune(d.b[at:])
		at += n
	}
	return at
}

// TestRefusals: each reason of the table, and a request next to it that is read.
func TestRefusals(t *testing.T) {
	const node = `<node client_id="a" %s><interface client_id="a:0"/></node><node client_id="b"><interface client_id="b:0"/></node>`
	two := fmt.Sprintf(node, "")
	foreign := `<node client_id="z" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm"><interface client_id="z:0"/></node>`
	ip := func(a, b string) string {
		return `<node client_id="a"><interface client_id="a:0"><ip ` + a + `/></interface></node><node client_id="b"><interface client_id="b:0"><ip ` + b +
			`/></interface></node><link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`
	}
	pair := func(shape string) string {
		return `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/><property source_id="a:0" dest_id="b:0" ` + shape + `/></link>`
	}
	service := func(inside string) string {
		return `<node client_id="a"><services>` + inside + `</services></node>`
	}
	vlan := func(inside string) string {
		return `<link client_id="l" xmlns:v="http://www.geni.net/resources/rspec/ext/shared-vlan/1"><interface_ref client_id="a:0"/>` + inside + `</link>`
	}
	for _, row := range []struct{ name, bad, good string }{
		{"an own node without client_id", `<node client_id=""/>`, `<node client_id="&#x20;a"/>`},
		{"an own node's client_id twice", two + `<node client_id="b"/>`, two + `<node client_id="B"/>`},
		{"an own node bound to what is no URN", `<node client_id="a" component_id="pc1"/>`, `<node client_id="a" component_id=""/>`},
		{"exclusive is no boolean", fmt.Sprintf(node, `exclusive="yes"`), fmt.Sprintf(node, `exclusive="1"`)},
		{"an interface without client_id", `<node client_id="a"><interface/></node>`, two},
		{"an interface's client_id twice", `<node client_id="a"><interface client_id="i"/><interface client_id="i"/></node>`, two},
		{"an address that is none", ip(`address="10.0.0.300"`, `address="10.0.0.2"`), ip(`address="10.0.0.1" netmask="255.255.0.0"`, `address="2001:db8::1" type="ipv6"`)},
		{"an address that no interface can have", ip(`address="10.0.0.255" netmask="255.255.255.0"`, `address="127.0.0.1"`),
			ip(`address="10.0.1.0" netmask="22"`, `address="10.0.0.3" netmask="255.255.255.254"`)},
		{"an address of another type", ip(`address="10.0.0.1" type="ipv6"`, `address="10.0.0.2"`), ip(`address="10.0.0.1" type="ipv4"`, `address="10.0.0.2"`)},
		{"a sliver_type without a name", `<node client_id="a"><sliver_type/></node>`, `<node client_id="a"><sliver_type name="x"/></node>`},
		{"a command or url that is too long", service(`<execute shell="sh" command="` + strings.Repeat("x", 64<<10+1) + `"/>`), service(`<execute shell="sh" command="` + strings.Repeat("x", 64<<10) + `"/>`)},
		{"too many services on a node", service(strings.Repeat(`<execute/>`, 101) + `</services><services>` + strings.Repeat(`<install/>`, 100)), service(strings.Repeat(`<execute/>`, 200))},
		{"a link twice at one interface", two + `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="a:0"/></link>`, two + pair("")},
		{"a property from an interface to itself", two + strings.Replace(pair(`latency="5"`), `dest_id="b:0"`, `dest_id="a:0"`, 1), two + pair(`latency="5"`)},
		{"an address twice on a link", ip(`address="10.0.0.1"`, `address="10.0.0.1"`), ip(`address="10.0.0.1"`, `address="10.0.0.2"`)},
		{"a link without client_id", two + `<link><interface_ref client_id="a:0"/></link>`, two + `<link client_id="l"><interface_ref client_id="a:0"/></link>`},
		{"a link's client_id twice", two + `<link client_id="l"><interface_ref client_id="a:0"/></link><link client_id="l"><interface_ref client_id="b:0"/></link>`, two},
		{"a link without interfaces", two + `<link client_id="l"/>`, two + `<link client_id="l"><component_manager name="urn:publicid:IDN+elsewhere.example.net+authority+cm"/></link>`},
		{"an interface_ref to nothing", two + `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="c:0"/></link>`,
			two + `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`},
		{"a property with what is no number", two + pair(`capacity="fast"`), two + pair(`capacity="100"`)},
		{"an interface at the end of two links", two + pair("") + strings.Replace(pair(""), `"l"`, `"m"`, 1), two + pair("")},
		{"a shared VLAN without a name", two + vlan(`<v:link_shared_vlan/>`), two + vlan(`<v:link_shared_vlan name="mesoscale"/>`)},
		{"two shared VLANs on one link", two + vlan(`<v:link_shared_vlan name="a"/><v:link_shared_vlan name="b"/>`), two + vlan(`<link_shared_vlan/>`)},
		{"a link between our nodes and others'", two + foreign + `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="z:0"/></link>`,
			two + foreign + `<link client_id="l"><interface_ref client_id="z:0"/></link>`},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i, inside := range []string{row.bad, row.good} {
				text := "<rspec xmlns='" + core + "' type='request'>\n" + inside + "\n</rspec>"
				d, err := parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				_, err = rspec.ParseRequest([]byte(text), rspec.ReadOptions{Managers: everyManager(d)[:1]})
				reasons, wrong := expected(d, []urn.URN{manager}, err)
				if wrong != nil || slices.Contains(reasons, row.name) != (i == 0) || i == 1 && err != nil {
					t.Errorf("%s\n\t%v; reasons %q", inside, wrong, reasons)
				}
			}
		})
	}
}
