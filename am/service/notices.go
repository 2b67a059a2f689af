package service

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/step"
)

const (
	maxRemarks = 20 // different remarks
	maxNamed   = 5  // nodes or links named in one remark
)

// Remark describes a part of a request that the site ignores or fulfils in another way. Kind is
// "node", "link" or "the request". A remark on the whole request has no ClientID.
type Remark struct {
	Kind, ClientID string
	// What is the name of the attribute or element that the remark is about, such as disk_image;
	// "" for the whole node or link.
	What string
	Text string
}

type remarks struct {
	inv     *inventory.Inventory
	list    []Remark
	seen    map[string]bool // texts
	metrics map[string]bool
}

// add drops a remark with a new text if there are maxRemarks texts already.
func (r *remarks) add(kind, clientID, what, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	if key := kind + " " + text; !r.seen[key] {
		if len(r.seen) == maxRemarks {
			return
		}
		r.seen[key] = true
	}
	r.list = append(r.list, Remark{kind, clientID, what, text})
}

func (r *remarks) texts() []string { return Notices(r.list) }

// Notices returns remarks as lines of text. Nodes with the same remark share a line, and
// so do links.
func Notices(list []Remark) (all []string) {
	type line struct{ kind, text string }
	var order []line
	names := map[line][]string{}
	for _, x := range list {
		m := line{x.Kind, x.Text}
		if names[m] == nil {
			order = append(order, m)
		}
		name := ""
		if x.ClientID != "" {
			name = fmt.Sprintf(" %.40q", x.ClientID)
		}
		names[m] = append(names[m], name)
	}
	for _, m := range order {
		names := names[m]
		kind, more := m.kind, ""
		if len(names) > 1 {
			kind += "s"
		}
		if left := len(names) - maxNamed; left > 0 {
			names, more = names[:maxNamed], fmt.Sprintf(" and %d more", left)
		}
		all = append(all, kind+strings.Join(names, ",")+more+": "+m.text)
	}
	return all
}

// remarksOf returns the remarks on a bound request. The slivers are those of its nodes.
func remarksOf(inv *inventory.Inventory, req *rspec.Request, b binder.Binding, slivers []am.Sliver) []Remark {
	r := remarks{inv: inv}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if text := imageNotice(inv, n.Node, &slivers[i]); text != "" {
			r.add("node", n.Node.ClientID, "disk_image", "%s", text)
		}
		if n.Shared {
			r.add("node", n.Node.ClientID, "exclusive", `exclusive="true" is not possible here: %s is shared, and other slices may use it, too`, n.Component.Name)
		}
		if n.Node.RoutableIP && !n.PublicAddress.IsValid() {
			if !slices.Contains(n.Node.Wishes, "public") { // else wishRemarks says so
				r.add("node", n.Node.ClientID, "routable_control_ip", "there are no public addresses here, so routable_control_ip is copied without effect")
			}
		}
		r.setupRemarks(n.Node)
		r.monitoringRemarks("node", n.Node.ClientID, n.Node.Monitoring)
	}
	bare := map[string]bool{}      // links with an interface without address
	unwired := map[string]string{} // by link: the name of a component at one end whose network is unknown
	for i := range b.Nodes {
		n := &b.Nodes[i]
		for _, in := range n.Interfaces {
			bare[in.Link] = bare[in.Link] || len(in.Addresses) == 0
			if !n.Component.IsWired() {
				unwired[in.Link] = n.Component.Name
			}
		}
	}
	for i := range req.Links {
		l := &req.Links[i]
		if l.SharedVLAN != "" && bare[l.ClientID] {
			r.add("link", l.ClientID, "link_shared_vlan", "other slices may be on the shared VLAN %.80q, so its interfaces get only the addresses that you give them", l.SharedVLAN)
		}
		if l.SharedVLAN != "" && slices.ContainsFunc(l.Properties, func(p rspec.Property) bool { return p.Source == "" }) {
			r.add("link", l.ClientID, "property", "its properties towards one interface do not apply to frames that other slices send on the shared VLAN %.80q; each slice shapes the frames that leave its own interfaces", l.SharedVLAN)
		}
		if loose := unwired[l.ClientID]; len(inv.Links) > 0 && loose != "" && asksCapacity(l) {
			r.add("link", l.ClientID, "property", "the inventory knows no network of %s, so the capacity is not reserved", loose)
		}
		r.monitoringRemarks("link", l.ClientID, l.Monitoring)
	}
	r.wishRemarks(req, b)
	r.monitoringRemarks("the request", "", req.Monitoring)
	r.nameRemarks(req, slivers)
	return r.list
}

func asksCapacity(l *rspec.Link) bool {
	return slices.ContainsFunc(l.Properties, func(p rspec.Property) bool { return p.Capacity > 0 })
}

// imageNotice says which image a node has instead of the requested one; "" if it has that. The
// inventory may have changed since the sliver was bound.
func imageNotice(inv *inventory.Inventory, n *rspec.Node, x *am.Sliver) string {
	asked := cmp.Or(n.DiskImage, n.DiskImageURL)
	if asked == "" || x.Image == "" || asked == x.Image || asked == x.ImageURN.String() {
		return ""
	}
	if i, ok := inv.Image(asked); ok && i.Name == x.Image {
		return ""
	}
	return fmt.Sprintf("there is no disk image %.80q here; %s is used instead", asked, x.Image)
}

// installer returns the name of the package manager by which a command installs packages from the
// Internet; "" for none.
func installer(command string) string {
	for _, part := range strings.FieldsFunc(command, func(c rune) bool { return strings.ContainsRune("\n;&|()", c) }) {
		found := ""
		for _, word := range strings.Fields(part) {
			switch word = path.Base(word); {
			case slices.Contains([]string{"apt-get", "apt", "aptitude", "yum", "dnf", "apk", "pip", "pip3"}, word):
				found = word
			case found != "" && slices.Contains([]string{"install", "update", "upgrade", "add"}, word):
				return found
			}
		}
	}
	return ""
}

// setupRemarks has remarks only if the site's nodes do not reach the Internet. They are on
// installs and files of scripts that a node cannot fetch, and on executes that install packages from the Internet.
func (r *remarks) setupRemarks(n *rspec.Node) {
	if r.inv.OutsideAccess != inventory.No {
		return
	}
	executes, installs := n.Services.OfKind(step.Execute), n.Services.OfKind(step.Install)
	for i, x := range executes {
		if p := installer(x.Command); p != "" {
			r.add("node", n.ClientID, "execute", "its execute %d of %d runs %s, which needs the Internet, and nodes here do not reach it; use an image that contains the packages", i+1, len(executes), p)
		}
	}
	for i, x := range executes {
		for _, f := range x.Files {
			if !isDelivered(f.URL) {
				r.add("node", n.ClientID, "execute", "the file %.80q of its execute %d of %d cannot be fetched: nodes here do not reach the Internet; let a node of the slice serve it, or put it into the script", f.URL, i+1, len(executes))
				break
			}
		}
	}
	for i, x := range installs {
		if !isDelivered(x.URL) {
			r.add("node", n.ClientID, "install", "its install %d of %d, %.80q, cannot be fetched: nodes here do not reach the Internet; let a node of the slice serve it, or write it as a data: URL", i+1, len(installs), x.URL)
		}
	}
}

// isDelivered reports whether a node needs no network for a URL.
func isDelivered(url string) bool {
	return inventory.IsDelivered(url) || len(url) >= len("data:") && strings.EqualFold(url[:len("data:")], "data:")
}

// monitoringRemarks adds remarks on requested monitoring that is not available.
func (r *remarks) monitoringRemarks(kind, clientID string, m *rspec.Monitoring) {
	if m == nil || !m.Enabled {
		return
	}
	offer := r.inv.Monitoring
	switch {
	case offer == nil:
		r.add(kind, clientID, "monitoring", "this aggregate offers no monitoring; the element is copied, and nothing is measured")
		return
	case m.Type != "" && offer.Type != "" && !strings.EqualFold(m.Type, offer.Type):
		r.add(kind, clientID, "monitoring", "monitoring of type %.40q is not available here, only %s; the element is copied", m.Type, offer.Type)
	}
	if r.metrics == nil {
		r.metrics = map[string]bool{}
		for _, o := range offer.Metrics {
			r.metrics[strings.ToLower(o.ID)] = true
		}
	}
	for _, id := range m.Metrics {
		if !r.metrics[strings.ToLower(id)] {
			r.add(kind, clientID, "monitoring", "there is no metric %.50q here; the advertisement lists all metrics", id)
		}
	}
}
