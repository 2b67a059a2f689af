package local

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds on settings.
const (
	shown          = 5 // mistakes in one message
	maxSliverTypes = 64
	maxNetworks    = 256
	maxSharedVLANs = 4094
	maxName        = 64
	firstFreePort  = 1024 // those below are for services of the host
)

// Bounds on nodes, the same as those of package node.
const (
	minSize = 16 << 20 // bytes of memory, and of a disk
	maxSize = 16 << 40
	minPIDs = 32 // half of them are for the agent and logins
	maxPIDs = 1 << 22
)

// parser walks the YAML of the settings and notes every mistake with its line.
type parser struct {
	Settings
	file     string
	mistakes []mistake
}

type mistake struct {
	line int
	text string
}

// parseSettings reads the text over the defaults. The error is one line with a
// sentence for each mistake, each beginning FILE:LINE.
func parseSettings(text []byte, file string) (Settings, error) {
	p := &parser{Settings: defaults(), file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return p.Settings, p.syntax(err)
	}
	if doc.Kind == yaml.DocumentNode && !null(doc.Content[0]) { // not empty
		p.top(doc.Content[0])
	}
	return p.Settings, p.err()
}

// syntax is an error for what is not YAML. The line that the YAML reader tells
// is where it began to read what it could not.
func (p *parser) syntax(err error) error {
	where, text := "", strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, rest, ok := strings.Cut(rest, ": "); ok {
			where, text = " at or after line "+line, rest
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	return fmt.Errorf("%s: this is not YAML%s: %s; look for a wrong indentation or an open bracket or quote", p.file, where, text)
}

func (p *parser) err() error {
	if len(p.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(p.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var all []string
	for _, m := range p.mistakes[:min(len(p.mistakes), shown)] {
		all = append(all, fmt.Sprintf("%s:%d: %s", p.file, m.line, m.text))
	}
	if more := len(p.mistakes) - shown; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(all, "; "))
}

func (p *parser) wrong(n *yaml.Node, format string, args ...any) {
	p.mistakes = append(p.mistakes, mistake{n.Line, fmt.Sprintf(format, args...)})
}

func (p *parser) top(n *yaml.Node) {
	keys := []string{
		"instance", "component", "public_host", "listen", "ports", "port_rest", "publish", "gateway_port",
		"sliver_types", "services_wait", "manifest_socket", "forward_to", "emulator", "shared_vlans", "outbound", "outbound_block", "outbound_addresses", "dns", "provider",
	}
	if what := anotherFile(deref(n)); what != "" {
		p.wrong(n, "this is %s; the settings of a testbed are those beside its provider, such as providers/local.yaml", what)
		return
	}
	p.fields(n, "the settings have", keys, func(key string, n *yaml.Node) {
		switch key {
		case "instance":
			if p.Instance = p.text(n, key); p.Instance != "" && !IsInstance(p.Instance) {
				p.wrong(n, "instance is %q and must be up to 16 lower-case letters, digits and hyphens, a hyphen not first", value(n))
			}
		case "component":
			if p.Component = p.text(n, key); !plain(p.Component) {
				p.wrong(n, "component is %q and must be a name of the inventory", value(n))
			}
		case "public_host":
			if p.PublicHost = p.text(n, key); p.PublicHost != "" && !isHost(p.PublicHost) {
				p.wrong(n, "public_host is %q and must be a host name or an address, without a port", value(n))
			}
		case "listen":
			p.Listen = p.listen(n)
		case "ports":
			p.FirstPort, p.LastPort = p.ports(n)
		case "port_rest":
			p.PortRest = p.time(n, key)
		case "publish":
			p.Publish = Publish(p.oneOf(n, key, string(Both), string(Direct), string(Gateway)))
		case "gateway_port":
			if p.GatewayPort = p.whole(n, key, 0, 65535); p.GatewayPort != 0 && p.GatewayPort < firstFreePort {
				p.wrong(n, "gateway_port is %d and must be 0, or from %d on", p.GatewayPort, firstFreePort)
			}
		case "sliver_types":
			p.types(n)
		case "services_wait":
			if p.ServicesWait = p.time(n, key); p.ServicesWait > maxServicesWait {
				p.wrong(n, "services_wait is %s and can be up to %.0fm: a node that is not ready within an hour is given up", value(n), maxServicesWait.Minutes())
			}
		case "manifest_socket":
			p.ManifestSocket = p.text(n, key)
		case "forward_to":
			p.ForwardTo = p.networks(n, key)
		default:
			p.network(key, n)
		}
	})
}

// network reads the value of a key that is about the network of nodes.
func (p *parser) network(key string, n *yaml.Node) {
	switch key {
	case "emulator":
		p.Emulator = Emulator(p.oneOf(n, key, string(AutoEmulator), string(Netem), string(Relay)))
	case "shared_vlans":
		p.vlans(n)
	case "outbound":
		p.Outbound = p.yes(n, key)
	case "outbound_addresses":
		p.appearances(n)
	case "outbound_block":
		p.blocks(n)
	case "dns":
		p.servers(n)
	}
}

// oneOf is the value of a key that has only these.
func (p *parser) oneOf(n *yaml.Node, key string, words ...string) string {
	if !slices.Contains(words, n.Value) {
		p.wrong(n, "%s is %q; %s", key, value(n), meant(n.Value, words))
	}
	return n.Value
}

// anotherFile says what a file of a site is that holds no settings of a testbed:
// one that has keys of another kind, or another provider's metadata.
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
			if _, ok := m.Attributes["slice_urn"]; !ok { // which the testbed's has
				return "of another provider"
			}
		}
	}
	return ""
}

func (p *parser) listen(n *yaml.Node) netip.Addr {
	if n.Kind == yaml.ScalarNode && (n.Value == "" || null(n)) {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		p.wrong(n, "listen is %q and must be an address of this host, or empty for all", value(n))
	}
	return a
}

func (p *parser) ports(n *yaml.Node) (first, last int) {
	a, b, _ := strings.Cut(n.Value, "-")
	first, err1 := strconv.Atoi(strings.TrimSpace(a))
	last, err2 := strconv.Atoi(strings.TrimSpace(b))
	if n.Kind != yaml.ScalarNode || err1 != nil || err2 != nil || first < firstFreePort || last < first || last > 65535 {
		p.wrong(n, "ports is %q and must be a range from %d to 65535, such as 20000-29999", value(n), firstFreePort)
	}
	return first, last
}

func (p *parser) types(n *yaml.Node) {
	p.SliverTypes = nil
	seen := map[string]bool{}
	items := p.items(n, "sliver_types")
	if len(items) > maxSliverTypes {
		p.wrong(n, "there are %d sliver_types, at most %d can be", len(items), maxSliverTypes)
		return
	}
	for _, item := range items {
		t, before := defaultType(), len(p.mistakes)
		t.Name = ""
		p.fields(item, "sliver_types have", []string{"name", "cpus", "memory", "pids", "disk"}, func(key string, n *yaml.Node) {
			switch key {
			case "name":
				if t.Name = p.text(n, key); !plain(t.Name) {
					p.wrong(n, "name is %q and must be a sliver type of the inventory", value(n))
				}
			case "cpus":
				cpus, err := strconv.ParseFloat(n.Value, 64)
				if n.Kind != yaml.ScalarNode || err != nil || !(cpus >= 0.01 && cpus <= 4096) {
					p.wrong(n, "cpus is %q and must be a number from 0.01 to 4096", value(n))
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
		case len(p.mistakes) > before:
		case t.Name == "":
			p.wrong(item, "a sliver type has no name; add one, such as name: container")
		case seen[t.Name]:
			p.wrong(item, "the sliver type %s is there twice; drop one", t.Name)
		default:
			seen[t.Name] = true
			p.SliverTypes = append(p.SliverTypes, t)
		}
	}
	if len(p.mistakes) == 0 && len(p.SliverTypes) == 0 {
		p.wrong(n, "sliver_types is empty, so there could be no node; add - name: container")
	}
}

func (p *parser) networks(n *yaml.Node, key string) (networks []netip.Prefix) {
	items := p.items(n, key)
	if len(items) > maxNetworks {
		p.wrong(n, "%s has %d networks, at most %d can be", key, len(items), maxNetworks)
		return nil
	}
	for _, item := range items {
		item = deref(item)
		net, err := netip.ParsePrefix(item.Value)
		if item.Kind != yaml.ScalarNode || err != nil {
			p.wrong(item, "%s has %q, which is no network such as 10.0.0.0/8", key, value(item))
			continue
		}
		networks = append(networks, net.Masked())
	}
	return networks
}

func (p *parser) vlans(n *yaml.Node) {
	p.SharedVLANs = nil
	items := p.items(n, "shared_vlans")
	if len(items) > maxSharedVLANs {
		p.wrong(n, "there are %d shared_vlans, at most %d can be", len(items), maxSharedVLANs)
		return
	}
	for _, item := range items {
		item = deref(item)
		switch name := item.Value; {
		case item.Kind != yaml.ScalarNode || name == "" || !plain(name):
			p.wrong(item, "shared_vlans has %q, which is no name of the inventory's shared_vlans", value(item))
		case slices.Contains(p.SharedVLANs, name):
			p.wrong(item, "the shared VLAN %s is there twice; drop one", name)
		default:
			p.SharedVLANs = append(p.SharedVLANs, name)
		}
	}
}

// fields calls f for every key of a mapping that is among keys, and notes the
// others. What has none of them is said by has.
func (p *parser) fields(n *yaml.Node, has string, keys []string, f func(key string, n *yaml.Node)) {
	if n = deref(n); n.Kind != yaml.MappingNode {
		p.wrong(n, "%s must be keys and values; there are %s", strings.TrimSuffix(has, " have"), listed(keys))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case !slices.Contains(keys, k.Value):
			p.wrong(k, "%s no key %q; %s", has, value(k), meant(k.Value, keys))
		case seen[k.Value]:
			p.wrong(k, "%s the key %q twice; drop one", has, k.Value)
		default:
			seen[k.Value] = true
			f(k.Value, deref(n.Content[i+1]))
		}
	}
}

func (p *parser) items(n *yaml.Node, what string) []*yaml.Node {
	if null(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.wrong(n, "%s must be a list: write it in brackets, or each item on a line that begins with a hyphen", what)
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || null(n) || n.Value == "" {
		p.wrong(n, "%s is empty; write a text", what)
		return ""
	}
	return n.Value
}

func (p *parser) whole(n *yaml.Node, what string, least, most int) int {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || i < least || i > most {
		p.wrong(n, "%s is %q and must be a whole number from %d to %d", what, value(n), least, most)
		return least
	}
	return i
}

// size reads a number of bytes.
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
	if n.Kind != yaml.ScalarNode || err != nil || unit == 0 || i < 0 || i > maxSize/unit || i*unit < minSize {
		p.wrong(n, "%s is %q and must be a size from %dM to %dT; write it like 512M or 4G", what, value(n), minSize>>20, int64(maxSize>>40))
		return minSize
	}
	return i * unit
}

func (p *parser) time(n *yaml.Node, what string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > 24*time.Hour {
		p.wrong(n, "%s is %q and must be a time up to 24h; write it like 10m or 30s", what, value(n))
		return 0
	}
	return d
}

// value is a scalar as it is written, short enough to be shown.
func value(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "{…}"
	case yaml.SequenceNode:
		return "[…]"
	}
	return fmt.Sprintf("%.40s", n.Value)
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// IsInstance tells whether s can be the name of a testbed.
func IsInstance(s string) bool {
	return len(s) <= 16 && s != "" && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// plain accepts names as the inventory has them; the empty one is the caller's
// business.
func plain(s string) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= maxName
}

// isHost accepts host names and addresses.
func isHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	return len(s) <= 253 && s != "" && s[0] != '-' && s[0] != '.' && strings.Trim(s, letters) == ""
}
