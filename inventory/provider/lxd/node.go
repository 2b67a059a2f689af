package lxd

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/rspec/hostname"
	"patchbay/rspec/match"
)

// node is the requested state of a node: the attributes of PROVIDER.md.
type node struct {
	Name          string   `json:"name,omitempty"`
	Ensure        string   `json:"ensure,omitempty"`
	Component     string   `json:"component,omitempty"`
	Power         string   `json:"power,omitempty"`
	RestartSerial string   `json:"restart_serial,omitempty"`
	ReloadSerial  string   `json:"reload_serial,omitempty"`
	SliverType    string   `json:"sliver_type,omitempty"`
	Image         string   `json:"image,omitempty"`
	Hostname      string   `json:"hostname,omitempty"`
	ClientID      string   `json:"client_id,omitempty"`
	SliceURN      string   `json:"slice_urn,omitempty"`
	SliverURN     string   `json:"sliver_urn,omitempty"`
	Users         []string `json:"users,omitempty"`
	Interfaces    []string `json:"interfaces,omitempty"`
	Granted       []string `json:"granted,omitempty"`
	Setup         []string `json:"setup,omitempty"`
	SetupStage    string   `json:"setup_stage,omitempty"`
	ChangeSerial  string   `json:"change_serial,omitempty"`

	lost bool // its member does not answer
}

// keys of an instance's configuration. Everything that the provider knows of a node is there.
const (
	keyNode  = "user.patchbay.node"  // the node, as requested last
	keyMade  = "user.patchbay.made"  // the instance is complete, although it has never run
	keyFacts = "user.patchbay.facts" // the facts
	keySteps = "user.patchbay.steps" // a steprunner.Journal
	keyEver  = "user.patchbay.ever"  // the steps of the journal, once they have changed; before, those of keyNode
)

// facts are what the provider found out or chose when it made the node.
type facts struct {
	Bridges   map[string]string `json:"bridges,omitempty"` // by link.key
	Login     string            `json:"login,omitempty"`
	Port      int               `json:"port,omitempty"`
	HostKeys  []string          `json:"host_keys,omitempty"`
	Addresses []string          `json:"addresses,omitempty"`
	Problem   string            `json:"problem,omitempty"`
	Known     string            `json:"known,omitempty"` // the hash of the names that the node knows
	// Restarts is the restart_serial of the last restart, Reloads the reload_serial of the disk.
	Restarts, Reloads string
}

// instanceName returns the name of a node's instance. The node's name must be an id.
func instanceName(id string) string { return instancePrefix + id }

const instancePrefix = "pb-"

// isID reports whether s can be the name of a node: a UUID in small letters.
func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (c == '-') || !hyphen && !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}

// iface is one item of the attribute interfaces.
type iface struct {
	ClientID      string     `json:"client_id"`
	Link          string     `json:"link"`
	Slice         string     `json:"slice"`
	Component     string     `json:"component"`
	VLAN          int        `json:"vlan"`
	SharedVLAN    string     `json:"shared_vlan"`
	Properties    []property `json:"properties"`
	Addresses     []string   `json:"addresses"`
	Role          string     `json:"role"`
	PublicAddress string     `json:"public_address"`

	node string
	name string // in a node that is made with these interfaces; later ones get others, see setNames
	mac  string
}

type property struct {
	To         []string `json:"to"`
	Capacity   int64    `json:"capacity"`
	Latency    float64  `json:"latency"`
	PacketLoss float64  `json:"packet_loss"`
}

// linkKey identifies the link of an interface in the cluster; empty without a link.
func (i *iface) linkKey() string {
	if i.Link == "" || i.SharedVLAN != "" {
		return ""
	}
	return i.Slice + " " + i.Link
}

// interfaces parses the items. Interfaces are called eth1, eth2 and so on, and their hardware
// addresses follow from the names of node and interface.
func (n *node) interfaces() ([]iface, error) {
	var all []iface
	seen := map[string]bool{}
	for number, item := range n.Interfaces {
		var i iface
		if err := json.Unmarshal([]byte(item), &i); err != nil {
			return nil, fmt.Errorf("interface %d is not a JSON object", number+1)
		}
		if i.Role == provider.RoleControl {
			return nil, provider.Refuse(provider.Unsupported, "public addresses cannot be given to nodes here")
		}
		if i.ClientID == "" || seen[i.ClientID] {
			return nil, fmt.Errorf("interface %d has no client_id, or one that another interface has", number+1)
		}
		seen[i.ClientID] = true
		for _, a := range i.Addresses {
			if _, err := netip.ParsePrefix(a); err != nil {
				return nil, fmt.Errorf("interface %.80q: %.60q is no address with the length of its network", i.ClientID, a)
			}
		}
		i.node, i.name = n.Name, fmt.Sprintf("eth%d", number+1)
		i.mac = hardwareAddress(n.Name, i.ClientID)
		all = append(all, i)
	}
	return all, nil
}

// hardwareAddress returns the hardware address of an interface. It is local and unicast, and the same whenever the node
// is made again.
func hardwareAddress(node, name string) string {
	sum := sha256.Sum256([]byte(node + " " + name))
	return net.HardwareAddr{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}.String()
}

// reportedInterfaces returns the items of Interfaces with two more keys: mac has the hardware address, and emulator
// names what emulates the properties of the link. It returns items that cannot be parsed as they are.
func (n *node) reportedInterfaces() []string {
	parsed, err := n.interfaces()
	if err != nil {
		return n.Interfaces
	}
	all := make([]string, len(parsed))
	for i, item := range n.Interfaces {
		var o map[string]any
		_ = json.Unmarshal([]byte(item), &o) // interfaces has parsed it
		o["mac"] = parsed[i].mac
		if emulator := parsed[i].emulator(); emulator != "" {
			o["emulator"] = emulator
		}
		b, _ := json.Marshal(o)
		all[i] = string(b)
	}
	return all
}

// emulator names what emulates the properties of the link for frames that the interface sends; "" for nothing.
func (i *iface) emulator() string {
	var words []string
	if slices.ContainsFunc(i.Properties, func(p property) bool { return p.Capacity > 0 }) {
		words = append(words, "lxd")
	}
	if p, _ := i.netem(); p != (netem{}) {
		words = append(words, "netem")
	}
	return strings.Join(words, "+")
}

// user is one item of the attribute users.
type user struct {
	Login string   `json:"login"`
	Keys  []string `json:"keys"`
}

// accounts parses the items of users.
func (n *node) accounts() ([]agent.Account, error) {
	var all []agent.Account
	for i, item := range n.Users {
		var u user
		if err := json.Unmarshal([]byte(item), &u); err != nil {
			return nil, fmt.Errorf("account %d is not a JSON object with login and keys", i+1)
		}
		all = append(all, agent.Account{Login: u.Login, Keys: u.Keys})
	}
	return all, nil
}

// checkSetup refuses steps that no node can do.
func (n *node) checkSetup() error {
	steps, err := steprunner.ParseSteps(n.Setup)
	if setup.IsUnsupported(err) {
		return provider.Refuse(provider.Unsupported, "%v", err)
	}
	for i := range steps {
		if steps[i].Kind == setup.Disk {
			return provider.Refuse(provider.Unsupported, "step %d of the setup is refused: a node of this cluster cannot get a disk of its own; leave the disk out, and ask for a larger disk.size", i+1)
		}
	}
	if err == nil && n.SetupStage != "" {
		_, err = steprunner.ParseStage(n.SetupStage)
	}
	return err
}

// limits returns the sliver type with its limits raised to the granted ones.
func (n *node) limits(t sliverType) (sliverType, error) {
	granted, _, err := match.ParseItems(n.Granted)
	if err != nil {
		return t, err
	}
	t.Memory = max(t.Memory, int64(granted["memory.size"].Max)>>20)
	t.CPUs = max(t.CPUs, int(granted["cpu.count"].Max))
	return t, nil
}

// check refuses what the node's member cannot make.
func (s *settings) check(n *node) error {
	if _, ok := s.sliverType(n.SliverType); !ok {
		return provider.Refuse(provider.Unknown, "the sliver type %.60q is not in the settings of this cluster", n.SliverType)
	}
	if _, ok := s.image(n.Image); !ok {
		return provider.Refuse(provider.Unknown, "the image %.60q is not in the settings of this cluster", n.Image)
	}
	if n.Hostname != "" && !hostname.IsHost(n.Hostname) {
		return provider.Refuse(provider.Failed, "%.80q is not a host name", n.Hostname)
	}
	accounts, err := n.accounts()
	if err == nil {
		err = (&agent.Configuration{Hostname: "node", Accounts: accounts}).Validate()
	}
	if err == nil {
		err = n.checkSetup()
	}
	if err == nil {
		_, err = n.limits(sliverType{})
	}
	if err != nil {
		return err
	}
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	for i := range mine {
		if err := s.checkInterface(&mine[i], n.Component); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxLatency  = 60_000      // milliseconds
	maxCapacity = 100_000_000 // kbit/s
)

// checkInterface refuses an interface whose link the cluster cannot make on the member. Only shared VLANs need a tag:
// bridges keep other links apart.
func (s *settings) checkInterface(i *iface, member string) error {
	refuse := func(format string, args ...any) error {
		return provider.Refuse(provider.Unsupported, "link %.80s %s", i.Link, fmt.Sprintf(format, args...))
	}
	for _, p := range i.Properties {
		canDelay := slices.Contains(s.Netem, member)
		switch {
		case p.Latency != 0 && !canDelay:
			return refuse("asks for latency, which cannot be made on %s", member)
		case p.PacketLoss != 0 && !canDelay:
			return refuse("asks for packet_loss, which cannot be made on %s", member)
		case p.Latency < 0 || p.Latency > maxLatency:
			return refuse("asks for a latency of %v ms, which is not between 0 and %d", p.Latency, maxLatency)
		case p.PacketLoss < 0 || p.PacketLoss > 100:
			return refuse("asks for a packet_loss of %v %%, which is not between 0 and 100", p.PacketLoss)
		case p.Capacity < 0 || p.Capacity > maxCapacity:
			return refuse("asks for a capacity of %d kbit/s, which is not between 0 and %d", p.Capacity, maxCapacity)
		}
	}
	if _, err := i.netem(); err != nil {
		return err
	}
	if i.SharedVLAN != "" && s.SharedVLANs[i.SharedVLAN] == "" {
		return refuse("names the shared VLAN %.60q, which is not in the settings of this cluster", i.SharedVLAN)
	}
	return nil
}
