package importad

import (
	"fmt"
	"strconv"
	"strings"

	"patchbay/schemas/xmltree"
)

// readLimits are the limits of the document: the largest known advertisements have about
// ten megabytes.
var readLimits = xmltree.Limits{Bytes: 64 << 20, Elements: 2_000_000}

const (
	emulabSpace = "http://www.protogeni.net/resources/rspec/ext/emulab/1"
	sharedGENI  = "http://www.geni.net/resources/rspec/ext/shared-vlan/1"
	sharedPG    = "http://www.protogeni.net/resources/rspec/ext/shared-vlan/1"
)

var rspecSpaces = map[string]bool{
	"http://www.geni.net/resources/rspec/3":        true,
	"http://www.protogeni.net/resources/rspec/2":   true,
	"http://www.protogeni.net/resources/rspec/0.2": true,
	"http://www.protogeni.net/resources/rspec/0.1": true,
}

// advertisement holds texts unchanged, except for blanks around them.
type advertisement struct {
	nodes  []*node
	wires  []*wire
	vlans  []vlan
	others map[string]int // children of the root that are not read, by name
}

type node struct {
	line                         int
	id, manager, name            string
	exclusive                    string
	cloud, unavailable           bool
	types                        []offer // sliver types
	images                       []disk  // written outside sliver types, as in old versions
	hardware                     []string
	slots                        int64 // free places for slivers; 0 if unknown
	country, latitude, longitude string
	ports                        []port
	capabilities                 map[string][]string // the values of each feature
}

// offer is a sliver type offered by a node.
type offer struct {
	name         string
	images       []disk
	capabilities map[string][]string
}

type disk struct {
	name, url, os, version, description string
	preferred                           bool
	capabilities                        map[string][]string
	valid                               capabilities // those of an image of the inventory
}

// port is an interface of a node.
type port struct{ id, name, role, address string }

// wire is a link as the advertisement describes it, usually from a node to a switch.
type wire struct {
	id, kind string
	managers []string
	ports    []string         // component_ids
	rate     map[string]int64 // kbit/s, by the component_id of the sending port
}

type vlan struct {
	name, tag, description string
	restricted             bool
}

// Error is the error for a text that is not a readable advertisement. Line is 0 if the
// error has no place.
type Error struct {
	Line int
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

// newError returns an *Error; line 0 means that the error has no place.
func newError(line int, format string, args ...any) error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

// read fails with an *Error or an error of xmltree.Parse.
func read(text []byte) (ad *advertisement, err error) {
	err = xmltree.Parse(text, readLimits, func(d *xmltree.Doc) (err error) {
		ad, err = readRoot(d.Root)
		return err
	})
	return ad, err
}

func readRoot(root *xmltree.Element) (*advertisement, error) {
	switch kind := attr(root, "type"); {
	case root.Local != "rspec":
		return nil, newError(root.Line, "this is a document of type %.80q, not an RSpec; use the advertisement that ListResources returns", root.Local)
	case !rspecSpaces[root.Space]:
		return nil, newError(root.Line, "RSpecs of the namespace %.80q are not read, only those of GENI version 3 and of ProtoGENI versions 2, 0.2 and 0.1; ask the aggregate for one of these", root.Space)
	case kind != "advertisement" && kind != "ad":
		return nil, newError(root.Line, "this RSpec is of type %.80q, not an advertisement; use the answer of ListResources without a slice", kind)
	}
	ad := &advertisement{others: map[string]int{}}
	for _, e := range root.Elements() {
		switch {
		case e.Space == root.Space && e.Local == "node":
			ad.nodes = append(ad.nodes, readNode(e))
		case e.Space == root.Space && e.Local == "link":
			ad.wires = append(ad.wires, readWire(e))
		case (e.Space == sharedGENI || e.Space == sharedPG) && e.Local == "rspec_shared_vlan":
			ad.vlans = append(ad.vlans, readVLANs(e)...)
		case len(ad.others) < 20 || ad.others[e.Local] > 0:
			ad.others[e.Local]++
		}
	}
	return ad, nil
}

// attr returns the value of the first attribute in names that e has. ProtoGENI's
// versions use different names for one attribute.
func attr(e *xmltree.Element, names ...string) string {
	for _, n := range names {
		if v, ok := e.Attr("", n); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func readNode(e *xmltree.Element) *node {
	n := &node{
		line: e.Line, id: attr(e, "component_id", "component_urn", "component_uuid"),
		manager: attr(e, "component_manager_id", "component_manager_urn", "component_manager_uuid"),
		name:    attr(e, "component_name"), exclusive: attr(e, "exclusive"),
		capabilities: readCapabilities(e),
	}
	for _, c := range e.Elements() {
		if c.Space != e.Space {
			continue
		}
		switch c.Local {
		case "sliver_type":
			n.types = append(n.types, readOffer(c))
		case "disk_image":
			n.images = append(n.images, readDisk(c))
		case "hardware_type", "node_type":
			n.hardware = append(n.hardware, attr(c, "name", "type_name"))
			n.slots = max(n.slots, slots(c))
		case "exclusive": // of old versions
			n.exclusive = strings.TrimSpace(c.Text())
		case "available":
			now := attr(c, "now") + strings.TrimSpace(c.Text())
			n.unavailable = now == "false" || now == "0"
		case "cloud":
			n.cloud = true
		case "location":
			n.country, n.latitude, n.longitude = attr(c, "country"), attr(c, "latitude"), attr(c, "longitude")
		case "interface":
			n.ports = append(n.ports, port{attr(c, "component_id"), attr(c, "component_name"), attr(c, "role"), attr(c, "public_ipv4")})
		}
	}
	return n
}

func readOffer(e *xmltree.Element) offer {
	o := offer{name: attr(e, "name", "type_name"), capabilities: readCapabilities(e)}
	for _, c := range e.Elements() {
		if c.Space == e.Space && c.Local == "disk_image" {
			o.images = append(o.images, readDisk(c))
		}
	}
	return o
}

func readDisk(e *xmltree.Element) disk {
	preferred := attr(e, "default")
	return disk{
		name: attr(e, "name"), url: attr(e, "url"), os: attr(e, "os"), version: attr(e, "version"), description: attr(e, "description"),
		preferred: preferred == "true" || preferred == "1", capabilities: readCapabilities(e),
	}
}

// slots returns the largest number of free slots in the hardware types of a node; 0 if
// they have no number, or no limit.
func slots(e *xmltree.Element) (most int64) {
	texts := []string{attr(e, "type_slots")}
	for _, c := range e.Elements() {
		if c.Space == emulabSpace && c.Local == "node_type" && attr(c, "static") != "true" {
			texts = append(texts, attr(c, "type_slots"))
		}
	}
	for _, t := range texts {
		if n, err := strconv.ParseInt(t, 10, 32); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// readWire takes the largest capacity if an interface has several.
func readWire(e *xmltree.Element) *wire {
	w := &wire{id: attr(e, "component_id", "component_urn", "component_uuid"), rate: map[string]int64{}}
	if m := attr(e, "component_manager_id", "component_manager_uuid"); m != "" {
		w.managers = append(w.managers, m)
	}
	for _, c := range e.Elements() {
		if c.Space != e.Space {
			continue
		}
		switch c.Local {
		case "interface_ref":
			w.ports = append(w.ports, attr(c, "component_id", "component_interface_id"))
		case "component_manager":
			w.managers = append(w.managers, attr(c, "name"))
		case "link_type":
			if w.kind == "" {
				w.kind = attr(c, "name", "type_name")
			}
		case "property":
			if rate, err := strconv.ParseFloat(attr(c, "capacity"), 64); err == nil && rate >= 1 && rate <= maxRate {
				from := attr(c, "source_id")
				w.rate[from] = max(w.rate[from], int64(rate))
			}
		}
	}
	return w
}

// maxRate is the largest capacity that an inventory may have, in kbit/s.
const maxRate = 1_000_000_000_000

func readVLANs(e *xmltree.Element) (list []vlan) {
	for _, c := range e.Elements() {
		if c.Local == "available" {
			restricted := attr(c, "restricted")
			list = append(list, vlan{attr(c, "name"), attr(c, "localTag"), attr(c, "description"), restricted == "true" || restricted == "1"})
		}
	}
	return list
}
