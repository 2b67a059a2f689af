package faithful_test

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/rspec"
)

const (
	infoExt   = "http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1"
	emulabExt = "http://www.protogeni.net/resources/rspec/ext/emulab/1"
)

var manager = mustURN("urn:publicid:IDN+example.org+authority+cm")

func mustURN(s string) urn.URN {
	u, err := urn.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// story is what a manifest is to tell.
type story struct {
	o     rspec.ManifestOptions
	nodes map[string]rspec.NodeFacts
	links map[string]rspec.LinkFacts
}

// generous tells all there is to tell of every own node and link. Another day
// tells the same later: only its times differ.
func generous(r *reading, day int) story {
	now := time.Date(2031, 5, 1+day, 12, 0, 0, 0, time.UTC)
	s := story{
		o:     rspec.ManifestOptions{Manager: manager, Generated: now, Expires: now.Add(90 * time.Minute), GeneratedBy: `an "AM" & more`},
		nodes: map[string]rspec.NodeFacts{}, links: map[string]rspec.LinkFacts{},
	}
	ends := 0
	for i, n := range r.nodes {
		f := rspec.NodeFacts{
			ComponentID:   mustURN(fmt.Sprintf("urn:publicid:IDN+example.org+node+pc%d", i)),
			SliverID:      mustURN(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+s%d", i)),
			ComponentName: fmt.Sprintf("pc%d", i),
			Exclusive:     i%2 == 0,
			SliverType:    "raw-pc", DiskImage: "urn:publicid:IDN+example.org+image+debian", HardwareType: "pc<3000>",
			Hosts:  []rspec.Host{{Name: fmt.Sprintf("n%d.example.org", i), IPv4: "192.0.2.7"}, {Name: "alias.example.org"}},
			Logins: []rspec.Login{{Hostname: "gw.example.org", Username: "alice"}, {Hostname: "2001:db8::7", Port: 2222, Username: "bob"}},
			Users: []rspec.User{
				{Login: "alice", URN: mustURN("urn:publicid:IDN+example.org+user+alice"), Keys: []string{"ssh-rsa AAAA <é> & \"so\"", "ssh-ed25519 BBBB"}},
				{Login: "bob"},
			},
			Proxies:    []rspec.Proxy{{Proxy: "alice@gw.example.org:22", For: "bob@2001:db8::7:2222"}},
			Interfaces: map[string]rspec.InterfaceFacts{},
			Sliver: &rspec.SliverInfo{Creator: mustURN("urn:publicid:IDN+example.org+user+alice"), Created: now.Add(-time.Hour),
				Expires: now.Add(time.Hour), State: "geni_notready", Error: "disk <full>"},
			VNode: &rspec.VNode{Name: fmt.Sprintf("vnode%d", i), HardwareType: "pcvm"},
		}
		if u, err := urn.Parse(strings.TrimSpace(n.get("component_id"))); err == nil {
			f.ComponentID = u // what is bound stays so
		}
		for j, e := range n.all(core, "interface") {
			ends++
			address := netip.AddrFrom4([4]byte{198, 18, byte(ends / 200), byte(1 + ends%200)})
			fact := rspec.InterfaceFacts{MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i%256, j%256), Addresses: []netip.Prefix{netip.PrefixFrom(address, 24)}}
			if j%2 == 0 {
				fact.ComponentID = mustURN(fmt.Sprintf("urn:publicid:IDN+example.org+interface+pc%d:eth%d", i, j))
			}
			if j%3 == 2 {
				fact.Addresses = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("2001:db8::"+address.String()), 64)}
			}
			f.Interfaces[e.get("client_id")] = fact
		}
		s.nodes[n.get("client_id")] = f
	}
	for i, l := range r.links {
		s.links[l.get("client_id")] = rspec.LinkFacts{VLANTag: fmt.Sprint(100 + i)}
	}
	return s
}

// part makes the story a part of a manifest.
func (s story) part(r *rspec.Request) rspec.Part {
	return rspec.Part{Request: r, Nodes: s.nodes, Links: s.links}
}
