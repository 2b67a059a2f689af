package draw

import (
	"cmp"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func (r *reader) readLink(e *xmltree.Element) {
	l := Link{
		Name:      cmp.Or(value(e, "client_id"), componentName(value(e, "component_name")), componentName(value(e, "component_id"))),
		VLAN:      value(e, "vlantag"),
		Monitored: monitored(e),
	}
	for _, t := range r.children(e, "link_type") {
		name := lastName(value(t, "name"))
		if speed := speedOf(name); speed != "" {
			l.Speeds = addNew(l.Speeds, speed)
		} else {
			l.Types = addNew(l.Types, name)
		}
	}
	for _, s := range childrenOf(e, "link_shared_vlan", schemas.SharedVLAN, schemas.OldSharedVLAN) {
		l.Shared, l.VLAN = value(s, "name"), cmp.Or(l.VLAN, value(s, "vlantag"))
	}
	for _, ref := range r.children(e, "interface_ref") {
		l.Ends = append(l.Ends, r.linkEnd(ref))
	}
	for _, c := range r.children(e, "property") {
		l.Properties = append(l.Properties, Property{
			Source:   r.interfaceName(value(c, "source_id")),
			Dest:     r.interfaceName(value(c, "dest_id")),
			Capacity: capacity(value(c, "capacity")),
			Latency:  latency(value(c, "latency")),
			Loss:     loss(value(c, "packet_loss")),
		})
	}
	r.p.Links = append(r.p.Links, l)
}

// linkEnd tries client_id first, because several interfaces may have the same component_id.
func (r *reader) linkEnd(ref *xmltree.Element) End {
	client, component := value(ref, "client_id"), value(ref, "component_id")
	for _, id := range []string{client, component} {
		if at, known := r.interfaces[id]; known {
			in := &r.p.Nodes[at.node].Interfaces[at.number]
			in.linked = true
			return End{Name: in.Name, Node: at.node, Interface: at.number}
		}
	}
	name := cmp.Or(client, component)
	end := End{Name: componentName(name), Node: -1, Interface: -1}
	if u, err := urn.Parse(name); err == nil {
		end.Authority = u.Authority
	}
	return end
}

func (r *reader) interfaceName(id string) string {
	if at, known := r.interfaces[id]; known {
		return r.p.Nodes[at.node].Interfaces[at.number].Name
	}
	return componentName(id)
}

// speedOf returns the capacity in a link type such as "ethernet-1000000", where the number is
// in kbit/s. For any other type it returns "".
func speedOf(name string) string {
	speed, found := strings.CutPrefix(strings.ToLower(name), "ethernet-")
	if !found || speed == "" || strings.Trim(speed, "0123456789") != "" {
		return ""
	}
	return capacity(speed)
}
