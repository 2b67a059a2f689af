package testbed

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/inventory/provider"
)

const (
	maxInterfaces     = 64
	maxAddresses      = 64   // of an interface
	maxProperties     = 4096 // of all interfaces of a node
	maxTowards        = 1000 // interfaces that a property names
	maxInterfaceBytes = 256 << 10
	maxShort          = 256 // of a client_id or the name of a link, in bytes
)

const (
	maxCapacity = 1_000_000_000_000 // kbit/s
	maxLatency  = 3_600_000         // ms
)

// iface is one item of the attribute "interfaces".
type iface struct {
	clientID string
	link     string // empty: no link
	slice    string // slice of the link; empty: the node's slice
	shared   string // name of a shared VLAN
	// control marks the item of a public address, which is not an interface.
	control    bool
	addresses  []netip.Prefix
	properties []property
	// name is the interface's name in the node; empty for the item of a public address.
	name string
	// text is the item as requested, without the keys that get adds.
	text string
}

// property describes the treatment of frames that leave an interface.
type property struct {
	To         []string `json:"to"` // client_ids; empty: all interfaces that no other property names
	Capacity   int64    `json:"capacity"`
	Latency    float64  `json:"latency"`
	PacketLoss float64  `json:"packet_loss"`
}

// reportedKeys are the keys of an item that get adds.
var reportedKeys = [...]string{"mac", "emulator", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "dropped"}

// parseInterfaces parses the attribute "interfaces". It names the interfaces in the node eth1, eth2 and so
// on, in this order. The error is for experimenters.
func parseInterfaces(items []string) ([]iface, error) {
	size, properties, seen := 0, 0, map[string]bool{}
	var all []iface
	for i, item := range items {
		f, err := parseInterface(item)
		if err != nil {
			return nil, fmt.Errorf("interface %d: %w", i+1, err)
		}
		// The bound applies to the saved form, in which a letter may take more bytes.
		if size += len(f.text); size > maxInterfaceBytes {
			return nil, fmt.Errorf("the interfaces have more than %d bytes of names, addresses and properties", maxInterfaceBytes)
		}
		if f.control {
			all = append(all, f)
			continue
		}
		if seen[f.clientID] {
			return nil, fmt.Errorf("interface %d: another interface has the client_id %s; rename one", i+1, quoteName(f.clientID))
		}
		seen[f.clientID] = true
		if len(seen) > maxInterfaces {
			return nil, fmt.Errorf("there are more than %d interfaces, the maximum of a node", maxInterfaces)
		}
		if properties += len(f.properties); properties > maxProperties {
			return nil, fmt.Errorf("the interfaces have more than %d properties, the maximum of a node", maxProperties)
		}
		f.name = "eth" + strconv.Itoa(len(seen))
		all = append(all, f)
	}
	if len(all)-len(seen) > maxInterfaces {
		return nil, fmt.Errorf("there are more than %d public addresses", maxInterfaces)
	}
	return all, nil
}

// parseInterface parses and checks an item of the attribute "interfaces". Of a control interface it reads
// only the text. The text has no keys that get adds.
func parseInterface(item string) (iface, error) {
	var f iface
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(item), &keys); err != nil || keys == nil {
		return f, fmt.Errorf("it is not a JSON object")
	}
	var role string
	var addresses []string
	// Decoding into a struct would accept VLAN for vlan.
	for _, key := range []struct {
		name string
		to   any
		what string
	}{
		{"client_id", &f.clientID, "a text"}, {"link", &f.link, "a text"}, {"slice", &f.slice, "a text"}, {"shared_vlan", &f.shared, "a text"},
		{"role", &role, "a text"}, {"addresses", &addresses, "a list of texts"}, {"properties", &f.properties, "a list of objects with whole kbit/s, numbers of ms and per cent"},
	} {
		if text, ok := keys[key.name]; ok && json.Unmarshal(text, key.to) != nil {
			return f, fmt.Errorf("%s is not %s", key.name, key.what)
		}
	}
	for _, key := range reportedKeys {
		delete(keys, key)
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return f, err
	}
	f.text, f.control = string(text), role == provider.RoleControl
	if f.control {
		return f, nil
	}
	switch {
	case f.clientID == "":
		return f, fmt.Errorf("it has no client_id")
	case len(f.clientID) > maxShort, len(f.link) > maxShort, len(f.shared) > maxShort:
		return f, fmt.Errorf("client_id, link and shared_vlan can have at most %d bytes, and one has more", maxShort)
	case len(f.slice) > maxText:
		return f, fmt.Errorf("slice can have at most %d bytes, and has %d", maxText, len(f.slice))
	case f.link == "" && f.shared != "":
		return f, fmt.Errorf("it has a shared_vlan but no link")
	}
	if f.addresses, err = parseAddresses(addresses); err != nil {
		return f, err
	}
	return f, checkProperties(f.properties)
}

func parseAddresses(texts []string) ([]netip.Prefix, error) {
	if len(texts) > maxAddresses {
		return nil, fmt.Errorf("it has %d addresses, at most %d are allowed", len(texts), maxAddresses)
	}
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		switch a := p.Addr(); {
		case err != nil:
			return nil, fmt.Errorf("%.80q is not an address with a prefix length, such as 10.128.0.1/24", text)
		case a.Is4In6(), a.IsUnspecified(), a.IsMulticast(), a.IsLoopback(), p.Bits() == 0:
			return nil, fmt.Errorf("%s cannot be the address of an interface", p)
		case slices.ContainsFunc(all, func(q netip.Prefix) bool { return q.Addr() == a }):
			return nil, fmt.Errorf("it has the address %s twice; remove one", a)
		}
		all = append(all, p)
	}
	return all, nil
}

// checkProperties refuses values out of range, and different values towards one interface.
func checkProperties(all []property) error {
	type values struct {
		property
		last int // index of the last property that named the interface, from 1
	}
	seen := map[string]values{} // by client_id; empty: all others
	for i, p := range all {
		switch {
		case !(p.Capacity >= 0 && p.Capacity <= maxCapacity):
			return fmt.Errorf("a capacity is %d kbit/s; it must be from 0 to %d", p.Capacity, int64(maxCapacity))
		case !(p.Latency >= 0 && p.Latency <= maxLatency):
			return fmt.Errorf("a latency is %g ms; it must be from 0 to %d", p.Latency, maxLatency)
		case !(p.PacketLoss >= 0 && p.PacketLoss <= 100):
			return fmt.Errorf("a packet_loss is %g per cent; it must be from 0 to 100", p.PacketLoss)
		case len(p.To) > maxTowards:
			return fmt.Errorf("a property names %d interfaces, at most %d are allowed; name none to apply it towards all others", len(p.To), maxTowards)
		}
		for _, id := range p.To {
			if id == "" || len(id) > maxShort {
				return fmt.Errorf("a property names an interface whose client_id does not have 1 to %d bytes", maxShort)
			}
		}
		to := p.To
		if len(to) == 0 {
			to = []string{""}
		}
		for _, to := range to {
			before := seen[to]
			if before.last == i+1 {
				return fmt.Errorf("a property names %s twice; remove one", describeTarget(to))
			}
			for _, a := range [...]struct {
				what    string
				was, is float64
			}{
				{"capacity", float64(before.Capacity), float64(p.Capacity)}, {"latency", before.Latency, p.Latency},
				{"packet_loss", before.PacketLoss, p.PacketLoss},
			} {
				if a.was != 0 && a.is != 0 && a.was != a.is {
					return fmt.Errorf("%s towards %s is requested as both %g and %g", a.what, describeTarget(to), a.was, a.is)
				}
			}
			before.Capacity, before.Latency = cmp.Or(p.Capacity, before.Capacity), cmp.Or(p.Latency, before.Latency)
			before.PacketLoss, before.last = cmp.Or(p.PacketLoss, before.PacketLoss), i+1
			seen[to] = before
		}
	}
	return nil
}

// describeTarget describes the target of a property; "" means all other interfaces.
func describeTarget(clientID string) string {
	if clientID == "" {
		return "all others"
	}
	return quoteName(clientID)
}

func interfaceTexts(all []iface) []string {
	var list []string
	for _, f := range all {
		list = append(list, f.text)
	}
	return list
}

// macOf returns the same address after a restart of the node, so that the ARP entries of
// neighbours stay valid.
func macOf(node, clientID string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(node + "\x00" + clientID))
	return append(net.HardwareAddr{2}, sum[:5]...)
}

// quoteName quotes an experimenter's name if it has special characters.
func quoteName(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+"
	if len(name) <= 80 && strings.Trim(name, letters) == "" && name != "" {
		return name
	}
	return fmt.Sprintf("%.80q", name)
}
