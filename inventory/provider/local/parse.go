package local

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/schemas/yamlfile"
)

const (
	maxSliverTypes = 64
	maxNetworks    = 256
	maxSharedVLANs = 4094
	maxServers     = 3 // as many as a resolver uses
	maxAddresses   = 8 // public addresses of one host
	maxName        = 64
	firstFreePort  = 1024 // lower ports are for services of the host
)

// Limits of nodes, the same as in package node.
const (
	minSize = 16 << 20 // bytes of memory, and of a disk
	maxSize = 16 << 40
	minPIDs = 32 // half of them are for the agent and logins
	maxPIDs = 1 << 22
)

type parser struct {
	yamlfile.Reader
	Settings
}

// parseSettings keeps the defaults of keys that the text lacks. The error has a line
// for each mistake, each starting with FILE:LINE.
func parseSettings(text []byte, file string) (Settings, error) {
	p := &parser{yamlfile.Reader{File: file}, defaults()}
	if doc := p.Document(text); doc != nil && !yamlfile.IsNull(doc.Content[0]) { // not empty
		p.top(doc.Content[0])
	}
	return p.Settings, p.Err()
}

func (p *parser) top(n *yaml.Node) {
	keys := []string{
		"instance", "component", "public_host", "listen", "ports", "port_rest", "publish", "gateway_port",
		"sliver_types", "services_wait", "manifest_socket", "forward_to", "emulator", "shared_vlans", "outbound", "outbound_block", "outbound_addresses", "dns", "provider",
	}
	if what := anotherFile(yamlfile.Deref(n)); what != "" {
		p.Wrong(n, "this is %s; the settings of a testbed are in the file beside its provider, such as providers/local.yaml", what)
		return
	}
	p.Fields(n, "the file", keys, func(key string, n *yaml.Node) {
		switch key {
		case "instance":
			if p.Instance = p.Text(n, key); p.Instance != "" && !IsInstance(p.Instance) {
				p.Wrong(n, "instance is %q and must be 1 to 16 lower-case letters, digits and hyphens; the first must not be a hyphen", yamlfile.Value(n))
			}
		case "component":
			if p.Component = p.Text(n, key); !isInventoryName(p.Component) {
				p.Wrong(n, "component is %q and must be the name of a component in the inventory", yamlfile.Value(n))
			}
		case "public_host":
			if p.PublicHost = p.Text(n, key); p.PublicHost != "" && !isHost(p.PublicHost) {
				p.Wrong(n, "public_host is %q and must be a host name or an address, without a port", yamlfile.Value(n))
			}
		case "listen":
			p.listen(n)
		case "ports":
			p.ports(n)
		case "port_rest":
			p.PortRest = p.time(n, key)
		case "publish":
			p.Publish = oneOf(p, n, key, Both, Direct, Gateway)
		case "gateway_port":
			if p.GatewayPort = p.whole(n, key, 0, 65535); p.GatewayPort != 0 && p.GatewayPort < firstFreePort {
				p.Wrong(n, "gateway_port is %d and must be 0, or at least %d", p.GatewayPort, firstFreePort)
			}
		case "sliver_types":
			p.types(n)
		case "services_wait":
			if p.ServicesWait = p.time(n, key); p.ServicesWait > maxServicesWait {
				p.Wrong(n, "services_wait is %s and must be at most %.0fm, because the manager waits at most an hour until a node is ready", yamlfile.Value(n), maxServicesWait.Minutes())
			}
		case "manifest_socket":
			p.ManifestSocket = p.Text(n, key)
		default:
			p.network(key, n)
		}
	})
}

func (p *parser) network(key string, n *yaml.Node) {
	switch key {
	case "forward_to":
		p.ForwardTo = p.networks(n, key)
	case "emulator":
		if n.Value == "relay" {
			p.Wrong(n, "%s: relay is now called %s", key, VSwitch)
			return
		}
		p.Emulator = oneOf(p, n, key, AutoEmulator, Netem, VSwitch)
	case "shared_vlans":
		seen := map[string]bool{}
		p.SharedVLANs = list(p, n, key, maxSharedVLANs, func(text string) (string, string) {
			switch {
			case text == "" || !isInventoryName(text):
				return "", "which cannot be a name in the inventory's shared_vlans"
			case seen[text]:
				return "", "which is listed twice; remove one"
			}
			seen[text] = true
			return text, ""
		})
	case "outbound":
		if p.Outbound = n.Value == "yes" || n.Value == "true"; !p.Outbound && n.Value != "no" && n.Value != "false" {
			p.Wrong(n, "outbound is %q and must be yes or no", yamlfile.Value(n))
		}
	case "outbound_block":
		p.OutboundBlock = p.networks(n, key)
		for _, net := range p.OutboundBlock {
			if !net.Addr().Is4() {
				p.Wrong(n, "outbound_block has %s, but nodes cannot reach outside networks over IPv6 anyway; remove it", net)
			}
		}
	case "outbound_addresses":
		p.OutboundAddresses = list(p, n, key, maxAddresses, func(text string) (netip.Addr, string) {
			a, err := netip.ParseAddr(text)
			if err != nil || !a.Is4() || a.IsUnspecified() || a.IsMulticast() {
				return a, "which cannot be a public IPv4 address of nodes"
			}
			return a, ""
		})
	case "dns":
		p.DNS = list(p, n, key, maxServers, func(text string) (netip.Addr, string) {
			a, err := netip.ParseAddr(text)
			if err != nil || a.IsUnspecified() || a.IsMulticast() {
				return a, "which cannot be the address of a name server"
			}
			return a, ""
		})
	}
}

func (p *parser) networks(n *yaml.Node, key string) []netip.Prefix {
	return list(p, n, key, maxNetworks, func(text string) (netip.Prefix, string) {
		net, err := netip.ParsePrefix(text)
		if err != nil {
			return net, "which is no network such as 10.0.0.0/8"
		}
		return net.Masked(), ""
	})
}

// list parses a list of at most limit entries. The parameter read returns the value of an entry, or
// an error text.
func list[T any](p *parser, n *yaml.Node, key string, limit int, read func(text string) (T, string)) (all []T) {
	items := p.Items(n, key)
	if len(items) > limit {
		p.Wrong(n, "%s has %d entries; at most %d are allowed", key, len(items), limit)
		return nil
	}
	for _, item := range items {
		item = yamlfile.Deref(item)
		v, wrong := read(item.Value)
		if wrong != "" {
			p.Wrong(item, "%s has %q, %s", key, yamlfile.Value(item), wrong)
			continue
		}
		all = append(all, v)
	}
	return all
}

func oneOf[T ~string](p *parser, n *yaml.Node, key string, words ...T) T {
	if !slices.Contains(words, T(n.Value)) {
		var have []string
		for _, w := range words {
			have = append(have, string(w))
		}
		meant := "there are " + strings.Join(have, ", ")
		if best := display.Suggest(n.Value, have); best != "" {
			meant = fmt.Sprintf("did you mean %q?", best)
		}
		p.Wrong(n, "%s is %q; %s", key, yamlfile.Value(n), meant)
	}
	return T(n.Value)
}

// anotherFile returns "" if the document n can be testbed settings. If n is another file of
// a site, or another provider's metadata, anotherFile returns a description of the file.
func anotherFile(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "authority", "trusted":
			return "the site's configuration"
		case "components":
			return "an inventory"
		case "provider":
			var m struct{ Attributes map[string]yaml.Node }
			if err := n.Content[i+1].Decode(&m); err != nil || len(m.Attributes) == 0 {
				continue
			}
			if _, ok := m.Attributes["slice_urn"]; !ok { // the testbed's metadata has this attribute
				return "the file of another provider"
			}
		}
	}
	return ""
}

func (p *parser) listen(n *yaml.Node) {
	p.Listen = netip.Addr{}
	if n.Kind == yaml.ScalarNode && (n.Value == "" || yamlfile.IsNull(n)) {
		return
	}
	var err error
	if p.Listen, err = netip.ParseAddr(n.Value); err != nil {
		p.Wrong(n, "listen is %q and must be an address of this host, or empty for all", yamlfile.Value(n))
	}
}

func (p *parser) ports(n *yaml.Node) {
	a, b, _ := strings.Cut(n.Value, "-")
	first, err1 := strconv.Atoi(strings.TrimSpace(a))
	last, err2 := strconv.Atoi(strings.TrimSpace(b))
	if err1 != nil || err2 != nil || first < firstFreePort || last < first || last > 65535 {
		p.Wrong(n, "ports is %q and must be a range from %d to 65535, such as 20000-29999", yamlfile.Value(n), firstFreePort)
	}
	p.FirstPort, p.LastPort = first, last
}

// types parses the list of sliver types. A type with a mistake is left out.
func (p *parser) types(n *yaml.Node) {
	p.SliverTypes = nil
	seen := map[string]bool{}
	items := p.Items(n, "sliver_types")
	if len(items) > maxSliverTypes {
		p.Wrong(n, "there are %d sliver_types; at most %d are allowed", len(items), maxSliverTypes)
		return
	}
	for _, item := range items {
		t, before := defaultType(), p.Mistakes()
		t.Name = ""
		p.Fields(item, "a sliver type", []string{"name", "cpus", "memory", "pids", "disk"}, func(key string, n *yaml.Node) {
			switch key {
			case "name":
				if t.Name = p.Text(n, key); !isInventoryName(t.Name) {
					p.Wrong(n, "name is %q and must be the name of a sliver type in the inventory", yamlfile.Value(n))
				}
			case "cpus":
				cpus, err := strconv.ParseFloat(n.Value, 64)
				if err != nil || !(cpus >= 0.01 && cpus <= 4096) {
					p.Wrong(n, "cpus is %q and must be a number from 0.01 to 4096", yamlfile.Value(n))
				}
				t.CPUs = cpus
			case "memory":
				t.Memory = p.size(n, key)
			case "pids":
				t.PIDs = p.whole(n, key, minPIDs, maxPIDs)
			case "disk":
				t.Disk = p.size(n, key)
			}
		})
		switch {
		case p.Mistakes() > before:
		case t.Name == "":
			p.Wrong(item, "a sliver type has no name; add one, such as name: container")
		case seen[t.Name]:
			p.Wrong(item, "the sliver type %s is listed twice; remove one", t.Name)
		default:
			seen[t.Name] = true
			p.SliverTypes = append(p.SliverTypes, t)
		}
	}
	if p.Mistakes() == 0 && len(p.SliverTypes) == 0 {
		p.Wrong(n, "sliver_types is empty, so no node could be created; add - name: container")
	}
}

// whole returns lowest after a mistake. The parameter what is the noun for the number in
// the message.
func (p *parser) whole(n *yaml.Node, what string, lowest, highest int) int {
	i, err := strconv.Atoi(n.Value)
	if err != nil || i < lowest || i > highest {
		p.Wrong(n, "%s is %q and must be a whole number from %d to %d", what, yamlfile.Value(n), lowest, highest)
		return lowest
	}
	return i
}

// size returns a number of bytes. K, M, G and T mean powers of 1024.
func (p *parser) size(n *yaml.Node, what string) int64 {
	digits, unit := strings.TrimRight(n.Value, "KMGT"), int64(1)
	switch n.Value[len(digits):] {
	case "":
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	case "T":
		unit = 1 << 40
	default:
		unit = 0
	}
	i, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || unit == 0 || i < 0 || i > maxSize/unit || i*unit < minSize {
		p.Wrong(n, "%s is %q and must be a size from %dM to %dT; write it like 512M or 4G", what, yamlfile.Value(n), minSize>>20, int64(maxSize>>40))
		return minSize
	}
	return i * unit
}

// time accepts at most a day.
func (p *parser) time(n *yaml.Node, what string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d < 0 || d > 24*time.Hour {
		p.Wrong(n, "%s is %q and must be a time up to 24h; write it like 10m or 30s", what, yamlfile.Value(n))
		return 0
	}
	return d
}

// IsInstance reports whether s is a valid name of a testbed.
func IsInstance(s string) bool {
	return len(s) <= 16 && s != "" && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isInventoryName reports whether the inventory allows s as a name. An empty s is allowed.
func isInventoryName(s string) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= maxName
}

func isHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	return len(s) <= 253 && s != "" && s[0] != '-' && s[0] != '.' && strings.Trim(s, letters) == ""
}
