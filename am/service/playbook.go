package service

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/hostname"
	"patchbay/rspec/match"
	"patchbay/rspec/step"
)

const (
	ansible = "software.ansible"
	// firstInstallable is the first version of Ansible that the script of playbooks can install.
	firstInstallable = "2.11"
)

func hasPlaybook(n *rspec.Node) bool {
	return slices.ContainsFunc(n.Services.Steps, func(q step.Requested) bool { return q.IsPlaybook })
}

func hasPlaybooks(req *rspec.Request) bool {
	return slices.ContainsFunc(req.Nodes, func(n rspec.Node) bool { return hasPlaybook(&n) })
}

// checkPlaybooks refuses playbooks that the images of their nodes cannot play. The result install
// reports whether the nodes must install the version of Ansible that the request states.
func checkPlaybooks(inv *inventory.Inventory, req *rspec.Request, bound []binder.Bound) (install bool, err error) {
	runsOn := map[string]bool{} // client_ids
	for i := range req.Nodes {
		for _, q := range req.Nodes[i].Services.Steps {
			switch {
			case q.IsPlaybook && q.Relation != nil && q.Relation.OnTarget:
				runsOn[q.Relation.ClientID] = true
			case q.IsPlaybook:
				runsOn[req.Nodes[i].ClientID] = true
			}
		}
	}
	for i := range bound {
		b := &bound[i]
		if !runsOn[b.Node.ClientID] {
			continue
		}
		offer, ok := imageCapability(inv, b.Image, ansible)
		want := req.AnsibleVersion
		switch {
		case !ok:
			return false, am.Errorf(am.Unsupported, "node %.80q has playbooks, but its image %.80q does not list Ansible; request another image; operators can install ansible-core and jmespath in it, and add software.ansible: VERSION to its capabilities in inventory.yaml", b.Node.ClientID, b.Image)
		case want == "" || slices.ContainsFunc(offer.Values(), func(v string) bool { return v == want || strings.HasPrefix(v, want+".") }):
		case match.CompareVersions(want, firstInstallable) < 0:
			return false, am.Errorf(am.Unsupported, "node %.80q: its image %.80q has Ansible %s, and the plan needs %.40s, which nodes cannot install (only %s or newer); leave the version out", b.Node.ClientID, b.Image, offer, want, firstInstallable)
		case inv.OutsideAccess != inventory.Yes:
			return false, am.Errorf(am.Unsupported, "node %.80q: its image %.80q has Ansible %s, and the plan needs %.40s, which the node cannot install without outside access; leave the version out, or request another image", b.Node.ClientID, b.Image, offer, want)
		default:
			install = true
		}
	}
	return install, nil
}

func imageCapability(inv *inventory.Inventory, image, feature string) (offer match.Capability, ok bool) {
	if i, known := inv.Image(image); known {
		offer, ok = i.Capabilities[feature]
	}
	return offer, ok
}

// playbooks returns the inventory of the slice's live slivers and of the new ones, which belong to
// the bound nodes in the same order. If no live sliver is the master, it makes one of the new slivers the master.
func (s *Service) playbooks(req *rspec.Request, bound []binder.Bound, live, slivers []am.Sliver) (*step.Playbooks, error) {
	inv := s.Inventory()
	install, err := checkPlaybooks(inv, req, bound)
	if err != nil {
		return nil, err
	}
	version := ""
	if install {
		version = req.AnsibleVersion
	}
	all := slices.Concat(live, slivers)
	master := slices.IndexFunc(all, func(x am.Sliver) bool { return x.IsMaster })
	if master < 0 {
		i := masterOf(slivers, func(x *am.Sliver) bool {
			system, ok := imageCapability(inv, x.Image, "disk.0.os.name")
			return !ok || slices.Contains(system.Values(), "linux")
		})
		slivers[i].IsMaster = true
		master = len(live) + i
		all[master].IsMaster = true
	}
	p := step.NewPlaybooks(s.hosts(bound, all, &all[master]), version)
	if limit := s.cfg.Reading.Limits.Command; limit > 0 && p.Size() > limit {
		return nil, am.Errorf(am.TooBig, "the inventory of the playbooks takes %d bytes for %d nodes; the limit is %d; use fewer or shorter parameters, or request fewer nodes", p.Size(), len(all), limit)
	}
	return p, nil
}

// masterOf returns the first Linux node with a public address, or on an outbound network, that shares
// links with most others; without one, the first Linux node, or else the first node.
func masterOf(slivers []am.Sliver, isLinux func(*am.Sliver) bool) (master int) {
	ends := map[string]int{} // of each link
	for i := range slivers {
		for _, in := range slivers[i].Interfaces {
			ends[in.Link]++
		}
	}
	best := -2
	for i := range slivers {
		x := &slivers[i]
		if !isLinux(x) {
			continue
		}
		score := -1
		if x.PublicAddress.IsValid() || slices.ContainsFunc(x.Interfaces, func(in am.Interface) bool { return in.Public }) {
			score = 0
			for _, in := range x.Interfaces {
				if in.Link != "" {
					score += ends[in.Link] - 1
				}
			}
		}
		if score > best {
			best, master = score, i
		}
	}
	return master
}

// hosts returns the nodes of the inventory. The bound nodes belong to the last slivers of all. The
// parameters of the others are not known any more.
func (s *Service) hosts(bound []binder.Bound, all []am.Sliver, master *am.Sliver) []step.Host {
	members := map[string]int{}
	for i := range all {
		members[all[i].System]++
	}
	common := map[string]any{"IM_INFRASTRUCTURE_ID": master.Slice.String(), "IM_NODE_CLOUD_TYPE": "GENI"}
	if s.cfg.URL != nil {
		if u, err := url.Parse(s.cfg.URL()); err == nil {
			common["IM_NODE_CLOUD_SERVER"] = u.Hostname()
		}
	}
	for system, n := range members {
		if name := step.Variable(strings.ToUpper(system)); name != "" {
			common["IM_"+name+"_NUM_VMS"] = n
		}
	}
	addNames(common, "IM_MASTER_", master)
	hosts := make([]step.Host, len(all))
	names := hostname.Name(namesOf(all))
	for i := range all {
		x := &all[i]
		v := map[string]any{"IM_NODE_NUM": x.Number, "IM_NODE_VMID": x.URN.Name, "IM_NODE_PRIVATE_IP": privateAddress(x), "IM_NODE_PUBLIC_IP": publicAddress(x)}
		for k, text := range common {
			v[k] = text
		}
		addNames(v, "IM_NODE_", x)
		for n := range x.Interfaces {
			if in := &x.Interfaces[n]; len(in.Addresses) > 0 {
				v["IM_NODE_NET_"+strconv.Itoa(n)+"_IP"] = addressOn(in).String()
			}
		}
		if n := i - (len(all) - len(bound)); n >= 0 {
			for _, p := range bound[n].Node.Services.Properties {
				v[step.Variable(p.Name)] = p.Value
			}
		}
		hosts[i] = step.Host{ClientID: x.ClientID, Name: names[i], Group: x.System, Variables: v}
	}
	return hosts
}

// addNames adds the names of the node. A node without a DNS name has an empty domain.
func addNames(v map[string]any, prefix string, x *am.Sliver) {
	_, domain, _ := strings.Cut(x.DNSName, ".")
	v[prefix+"HOSTNAME"], v[prefix+"DOMAIN"], v[prefix+"FQDN"] = x.Hostname, domain, cmp.Or(x.DNSName, x.Hostname)
}

// privateAddress returns the node's first address on a network that is not outbound, else its first
// address; "" if it has none.
func privateAddress(x *am.Sliver) string {
	return textOf(cmp.Or(firstAddress(x, false), firstAddress(x, true)))
}

// publicAddress returns the public address that the site gave the node, or else the first one on an
// outbound network, unless that one is private; "" if it has none.
func publicAddress(x *am.Sliver) string {
	if a := firstAddress(x, true); !x.PublicAddress.IsValid() && !a.IsPrivate() {
		return textOf(a)
	}
	return textOf(x.PublicAddress)
}

// firstAddress returns the node's first address on a network that is outbound or not; zero if it has none.
func firstAddress(x *am.Sliver, outbound bool) netip.Addr {
	for i := range x.Interfaces {
		if in := &x.Interfaces[i]; in.Public == outbound && len(in.Addresses) > 0 {
			return addressOn(in)
		}
	}
	return netip.Addr{}
}

// addressOn returns the first IPv4 address of an interface with addresses, else the first one.
func addressOn(in *am.Interface) netip.Addr {
	i := slices.IndexFunc(in.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() })
	return in.Addresses[max(i, 0)].Addr()
}

// textOf returns "" for the zero address.
func textOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
