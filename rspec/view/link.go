package view

import (
	"cmp"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func (r *reader) readLink(e *xmltree.Element) {
	l := Link{
		Element:   e,
		Name:      cmp.Or(Value(e, "client_id"), componentName(Value(e, "component_name")), componentName(Value(e, "component_id"))),
		VLAN:      Value(e, "vlantag"),
		Monitored: monitored(e),
	}
	for _, t := range r.children(e, "link_type") {
		name := lastName(Value(t, "name"))
		if speed := speedOf(name); speed != "" {
			l.Speeds = addNew(l.Speeds, speed)
		} else {
			l.Types = addNew(l.Types, name)
		}
	}
	for _, s := range Children(e, "link_shared_vlan", schemas.SharedVLAN, schemas.OldSharedVLAN) {
		l.Shared, l.VLAN = Value(s, "name"), cmp.Or(l.VLAN, Value(s, "vlantag"))
	}
	for _, ref := range r.children(e, "interface_ref") {
		l.Ends = append(l.Ends, r.linkEnd(ref))
	}
	for _, c := range r.children(e, "property") {
		l.Properties = append(l.Properties, Property{
			Source:   r.interfaceName(Value(c, "source_id")),
			Dest:     r.interfaceName(Value(c, "dest_id")),
			Capacity: Value(c, "capacity"),
			Latency:  Value(c, "latency"),
			Loss:     Value(c, "packet_loss"),
		})
	}
	r.d.Links = append(r.d.Links, l)
}

// linkEnd returns the end that ref names, and marks its interface as linked. It tries the client_id first, because
// several interfaces may have the same component_id.
func (r *reader) linkEnd(ref *xmltree.Element) End {
	client, component := Value(ref, "client_id"), Value(ref, "component_id")
	for _, id := range []string{client, component} {
		if at, known := r.interfaces[id]; known {
			in := &r.d.Nodes[at.node].Interfaces[at.number]
			in.Linked = true
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
		return r.d.Nodes[at.node].Interfaces[at.number].Name
	}
	return componentName(id)
}

// speedOf returns the capacity in a link type such as "ethernet-1000000", where the number is
// in kbit/s. For any other type, and for 0, it returns "".
func speedOf(name string) string {
	speed, found := strings.CutPrefix(strings.ToLower(name), "ethernet-")
	if !found || strings.Trim(speed, "0123456789") != "" {
		return ""
	}
	return strings.TrimLeft(speed, "0")
}
