package simulated

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// node has the attributes that a set last accepted. A node is stored as a line in the log.
type node struct {
	Name          string   `json:"name"`
	Component     string   `json:"component"`
	SliverType    string   `json:"sliver_type,omitempty"`
	Image         string   `json:"image,omitempty"`
	Hostname      string   `json:"hostname,omitempty"`
	ClientID      string   `json:"client_id,omitempty"`
	SliceURN      string   `json:"slice_urn,omitempty"`
	SliverURN     string   `json:"sliver_urn,omitempty"`
	Power         string   `json:"power"`
	RestartSerial string   `json:"restart_serial,omitempty"`
	Users         []string `json:"users,omitempty"`
	Interfaces    []string `json:"interfaces,omitempty"`
	SetupStage    string   `json:"setup_stage,omitempty"`
	ChangeSerial  string   `json:"change_serial,omitempty"`
	Steps         []step   `json:"steps,omitempty"`
	// StepsAt is set in logs of release 0.1: all steps ran from then on, one after the other.
	StepsAt time.Time `json:"steps_at,omitzero"`
	// Doing is the last accepted operation.
	Doing operation `json:"doing"`
	// ReadyAt is the time when Doing ends.
	ReadyAt time.Time `json:"ready_at"`
	// Fails is the reason if Doing fails; empty if it succeeds.
	Fails string `json:"fails,omitempty"`
	// LostAt is the time when the node vanishes; zero if it does not.
	LostAt time.Time `json:"lost_at,omitzero"`
	// Place determines the node's address. It is unique among existing nodes.
	Place int `json:"place"`
	Port  int `json:"port"`
}

// isGone reports whether the node was removed or has vanished.
func (n *node) isGone(now time.Time) bool {
	if n.Doing == opRemove && n.Fails == "" && !now.Before(n.ReadyAt) {
		return true
	}
	return !n.LostAt.IsZero() && !now.Before(n.LostAt)
}

var doing = map[operation]string{
	opMake: "installing", opStart: "booting", opStop: "shutting down",
	opRestart: "rebooting", opUsers: "updating accounts", opRemove: "wiping",
}

// failedAction holds verbs for messages such as "pc1 could not boot".
var failedAction = map[operation]string{
	opMake: "be installed", opStart: "boot", opStop: "shut down",
	opRestart: "reboot", opUsers: "take its new accounts or settings", opRemove: "be wiped",
}

// report returns the node's attributes for the answer to a get; domain is the domain of the
// login's host name.
func (n *node) report(now time.Time, domain string) provider.Resource {
	r := provider.Resource{
		provider.AttrName:          n.Name,
		provider.AttrEnsure:        provider.Present,
		provider.AttrPower:         n.Power,
		provider.AttrRestartSerial: n.RestartSerial,
		provider.AttrComponent:     n.Component,
		provider.AttrSliverType:    n.SliverType,
		provider.AttrImage:         n.Image,
		provider.AttrHostname:      n.Hostname,
		provider.AttrClientID:      n.ClientID,
		provider.AttrSliceURN:      n.SliceURN,
		provider.AttrSliverURN:     n.SliverURN,
		provider.AttrUsers:         append([]string{}, n.Users...), // JSON has [] for none
		provider.AttrInterfaces:    n.ports(),
		provider.AttrState:         provider.StateReady,
		provider.AttrAddresses:     []string{address(n.Place)},
	}
	up := n.Power == provider.On
	items, step := n.services(now)
	if len(items) > 0 {
		r[provider.AttrServices] = items
	}
	if n.ChangeSerial != "" {
		r[provider.AttrChangeSerial] = n.ChangeSerial
	}
	if n.SetupStage != "" {
		r[provider.AttrSetupStage] = n.SetupStage
	}
	switch {
	case now.Before(n.settledAt()):
		r[provider.AttrState] = provider.StateChanging
		r[provider.AttrMessage] = cmp.Or(step, doing[n.Doing])
		up = up && n.Doing == opUsers
	case n.Fails != "":
		r[provider.AttrState] = provider.StateFailed
		r[provider.AttrMessage] = n.Fails
		up = up && n.Doing == opUsers
	}
	if up {
		r[provider.AttrLogin] = []string{fmt.Sprintf("%s.%s:%d", hostPart(n.Component), domain, n.Port)}
		r[provider.AttrHostKeys] = []string{hostKey(n.Name)}
	}
	return r
}

// ports returns the items of "interfaces" with their hardware addresses and emulators.
func (n *node) ports() []string {
	all := make([]string, 0, len(n.Interfaces))
	for _, text := range n.Interfaces {
		var item map[string]json.RawMessage
		var id string
		if json.Unmarshal([]byte(text), &item) == nil && json.Unmarshal(item["client_id"], &id) == nil {
			item["mac"] = json.RawMessage(strconv.Quote(hardwareAddress(n.Name, id)))
			if item["link"] != nil {
				item["emulator"] = json.RawMessage(`"simulated"`)
			}
			if b, err := json.Marshal(item); err == nil {
				text = string(b)
			}
		}
		all = append(all, text)
	}
	return all
}

// hardwareAddress returns an address that depends only on the node and its interface. The first octet marks it as
// locally administered.
func hardwareAddress(node, clientID string) string {
	sum := sha256.Sum256([]byte("interface " + clientID + " of " + node))
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...)).String()
}

// hostPart converts any text to a label of a host name.
func hostPart(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(s)), "-.")
}

// ranges are the addresses for documentation (RFC 5737) and then those for benchmarks
// (RFC 2544). No real host has them.
var ranges = []struct {
	first string
	size  int
}{
	{"192.0.2.1", 254}, {"198.51.100.1", 254}, {"203.0.113.1", 254}, {"198.18.0.1", 131_070},
}

// address returns the address of a node by its place. Places beyond the last range begin there again.
func address(place int) string {
	for i, r := range ranges {
		if place < r.size || i == len(ranges)-1 {
			b := netip.MustParseAddr(r.first).As4()
			binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(place%r.size))
			return netip.AddrFrom4(b).String()
		}
		place -= r.size
	}
	return ""
}

// hostKey returns a text that looks like an Ed25519 public key; there is no private key.
func hostKey(name string) string {
	const kind = "ssh-ed25519"
	sum := sha256.Sum256([]byte("host key of " + name))
	b := binary.BigEndian.AppendUint32(nil, uint32(len(kind)))
	b = append(b, kind...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(sum)))
	b = append(b, sum[:]...)
	return kind + " " + base64.StdEncoding.EncodeToString(b)
}
