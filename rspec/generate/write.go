package generate

import (
	"cmp"
	"encoding/base64"
	"encoding/xml"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/rspec/match"
	"patchbay/schemas"
)

// anyType is the sliver type of a node that names an image but no type: most aggregates know it.
const anyType = "default-vm"

// maxStepName is the limit of the setup extension for the name of a step, in bytes.
const maxStepName = 80

// opWords are the comparisons that need no escape in XML.
var opWords = map[match.Op]string{match.Less: "lt", match.AtMost: "le", match.Greater: "gt", match.AtLeast: "ge", match.Contains: "contains"}

// Write returns the request as a document. Equal requests give equal bytes.
func (r *Request) Write() []byte {
	w := &writer{language: r.Language}
	w.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	w.line(`<rspec xmlns="` + schemas.Namespace + `" type="request"`)
	for _, s := range [][2]string{{"emulab", schemas.Emulab}, {"match", schemas.Match}, {"net", schemas.Net}, {"origin", schemas.Origin}, {"setup", schemas.Setup}} {
		end := ""
		if s[0] == "setup" {
			end = ">"
		}
		w.line(`       xmlns:` + s[0] + `="` + s[1] + `"` + end)
	}
	w.depth++
	w.comments(r.Comments)
	w.empty("origin:source", "language", r.Language)
	w.features(r.Features)
	if r.Deadline > 0 || r.Ansible != "" {
		deadline := ""
		if r.Deadline > 0 {
			deadline = strconv.Itoa(r.Deadline)
		}
		w.empty("setup:plan", "deadline", deadline, "ansible", r.Ansible)
	}
	for i := range r.Nodes {
		w.node(&r.Nodes[i])
	}
	for i := range r.Links {
		w.link(&r.Links[i])
	}
	w.depth--
	w.line(`</rspec>`)
	return []byte(w.text.String())
}

type writer struct {
	text     strings.Builder
	depth    int
	language string
}

func (w *writer) line(text string) {
	for range w.depth {
		w.text.WriteString("  ")
	}
	w.text.WriteString(text)
	w.text.WriteByte('\n')
}

// startTag returns a start tag without its closing bracket. pairs has names and values in turn; attributes with an
// empty value are left out.
func startTag(name string, pairs ...string) string {
	var b strings.Builder
	b.WriteString("<" + name)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b.WriteString(" " + pairs[i] + `="`)
			_ = xml.EscapeText(&b, []byte(pairs[i+1]))
			b.WriteByte('"')
		}
	}
	return b.String()
}

func (w *writer) empty(name string, pairs ...string) { w.line(startTag(name, pairs...) + "/>") }

func (w *writer) open(name string, pairs ...string) {
	w.line(startTag(name, pairs...) + ">")
	w.depth++
}

func (w *writer) close(name string) {
	w.depth--
	w.line("</" + name + ">")
}

// comments writes one comment for each text.
func (w *writer) comments(list []string) {
	for _, text := range list {
		text = strings.Map(func(c rune) rune {
			if c < ' ' || c == utf8.RuneError || c == 0xfffe || c == 0xffff {
				return ' '
			}
			return c
		}, text)
		for strings.Contains(text, "--") { // forbidden in comments
			text = strings.ReplaceAll(text, "--", "- -")
		}
		w.line("<!-- " + text + " -->")
	}
}

func (w *writer) features(list []Feature) {
	for _, f := range list {
		w.valued("origin:feature", f)
	}
}

// valued writes an element with a name and a value, which may be empty.
func (w *writer) valued(name string, f Feature) {
	if f.Value == "" {
		w.line(startTag(name, "name", f.Name) + ` value=""/>`)
		return
	}
	w.empty(name, "name", f.Name, "value", f.Value)
}

func (w *writer) origin(o *Origin, isNode bool) {
	if o.ID != "" {
		ordinal := ""
		if isNode {
			ordinal = strconv.Itoa(o.Ordinal)
		}
		w.empty("origin:source", "language", w.language, "id", o.ID, "ordinal", ordinal)
	}
	w.features(o.Features)
}

func (w *writer) node(n *Node) {
	w.comments(n.Comments)
	w.open("node", "client_id", n.ClientID, "component_manager_id", n.Manager, "component_id", n.ComponentID)
	switch {
	case n.DiskImage != "":
		w.open("sliver_type", "name", cmp.Or(n.SliverType, anyType))
		w.empty("disk_image", "name", n.DiskImage)
		w.close("sliver_type")
	case n.SliverType != "":
		w.empty("sliver_type", "name", n.SliverType)
	}
	if n.HardwareType != "" {
		w.empty("hardware_type", "name", n.HardwareType)
	}
	if n.Public {
		w.empty("emulab:routable_control_ip")
	}
	if n.NAT {
		w.empty("net:nat")
	}
	w.constraints(n.Require)
	for _, p := range n.Prefer {
		w.open("match:prefer", "weight", strconv.Itoa(p.Weight))
		w.constraints(p.Constraints)
		w.close("match:prefer")
	}
	w.origin(&n.Origin, true)
	for i := range n.Interfaces {
		w.networkInterface(&n.Interfaces[i])
	}
	if len(n.Parameters)+len(n.Steps) > 0 {
		w.open("services")
		w.parameters(n.Parameters)
		for i := range n.Steps {
			w.step(&n.Steps[i])
		}
		w.close("services")
	}
	w.close("node")
}

func (w *writer) constraints(list []match.Constraint) {
	for _, c := range list {
		w.empty("match:require", "feature", c.Feature, "op", opWords[c.Op], "value", c.Value)
	}
}

func (w *writer) networkInterface(i *Interface) {
	if len(i.Addresses)+len(i.DNSNames) == 0 && !i.Public && i.Ports == "" && i.Proxy == nil {
		w.empty("interface", "client_id", i.ClientID)
		return
	}
	w.open("interface", "client_id", i.ClientID)
	for _, a := range i.Addresses {
		kind, mask := "ipv6", strconv.Itoa(a.Bits())
		if a.Addr().Is4() {
			kind, mask = "ipv4", netmask(a)
		}
		w.empty("ip", "address", a.Addr().String(), "netmask", mask, "type", kind)
	}
	if i.Public {
		w.empty("net:public")
	}
	for _, name := range i.DNSNames {
		w.empty("net:dns", "name", name)
	}
	w.reach(i.Ports, i.Proxy)
	w.close("interface")
}

func netmask(a netip.Prefix) string {
	ones := ^uint32(0) << (32 - a.Bits())
	return netip.AddrFrom4([4]byte{byte(ones >> 24), byte(ones >> 16), byte(ones >> 8), byte(ones)}).String()
}

// reach writes how a network is reached from outside.
func (w *writer) reach(ports string, p *Proxy) {
	if ports != "" {
		w.empty("net:outports", "ports", ports)
	}
	if p != nil {
		w.empty("net:proxy", "user", p.User, "host", p.Host, "port", strconv.Itoa(cmp.Or(p.Port, 22)))
	}
}

func (w *writer) link(l *Link) {
	w.comments(l.Comments)
	join := ""
	if l.Join {
		join = "true"
	}
	w.open("link", "client_id", l.ClientID, "net:join", join)
	if l.Manager != "" {
		w.empty("component_manager", "name", l.Manager)
	}
	for _, name := range l.Interfaces {
		w.empty("interface_ref", "client_id", name)
	}
	if l.LAN {
		w.empty("link_type", "name", "lan")
	}
	if l.Range.IsValid() {
		w.empty("net:cidr", "range", l.Range.String())
	}
	w.reach(l.Ports, l.Proxy)
	for _, r := range l.Routes {
		w.empty("net:route", "to", r.To.String(), "via", r.Via)
	}
	w.origin(&l.Origin, false)
	w.close("link")
}

func (w *writer) parameters(list []Feature) {
	for _, p := range list {
		w.valued("setup:parameter", p)
	}
}

func (w *writer) step(s *Step) {
	name, order := cut(s.Name), ""
	if s.Stage > 0 {
		order = strconv.Itoa(s.Stage)
	}
	switch s.Kind {
	case UserData:
		w.line(startTag("setup:userdata", "name", name) + ">" + base64.StdEncoding.EncodeToString(s.Body) + "</setup:userdata>")
	case Disk:
		w.empty("setup:disk", "name", name, "size", s.Size, "mount_path", s.Path, "fstype", s.FileSystem, "device", s.Device, "image", s.Image)
	case Install:
		tag := startTag("install", "url", s.URL, "install_path", s.Path, "setup:name", name, "setup:order", order)
		if !s.Owners {
			w.line(tag + "/>")
			return
		}
		w.line(tag + `><ArchiveArtifactProperties xmlns="` + schemas.TOSCABase + `"/></install>`)
	default:
		background, sudo, again := "", "", ""
		if s.Again {
			again = "true"
		}
		switch {
		case s.Background:
			background = "true"
		case s.Stage == 0:
			background = "false" // otherwise stage 1 begins after 30 seconds at the latest
		}
		if s.AsUser {
			sudo = "false"
		}
		w.open("setup:step", "name", name, "language", s.Language, "order", order, "operation", s.Operation, "sudo", sudo, "background", background, "again", again)
		if s.Relation != "" {
			on := ""
			if s.OnTarget {
				on = "target"
			}
			w.empty("setup:relation", "client_id", s.Relation, "on", on)
		}
		w.parameters(s.Parameters)
		for _, f := range s.Files {
			if f.URL != "" {
				w.empty("setup:file", "path", f.Path, "url", f.URL)
				continue
			}
			w.line(startTag("setup:file", "path", f.Path) + ">" + base64.StdEncoding.EncodeToString(f.Body) + "</setup:file>")
		}
		w.line(base64.StdEncoding.EncodeToString(s.Body))
		w.close("setup:step")
	}
}

// cut returns a name of at most maxStepName bytes without control characters.
func cut(name string) string {
	name = strings.Join(strings.FieldsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }), " ")
	if len(name) <= maxStepName {
		return name
	}
	return strings.ToValidUTF8(name[:maxStepName-len("…")], "") + "…"
}
