package provider

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
)

// TypeNode is the type of providers that make nodes.
const TypeNode = "node"

// Attributes of a node that the manager asks for. AttrSetup is write-only.
const (
	AttrName          = "name"           // UUID: the name part of the sliver's URN
	AttrEnsure        = "ensure"         // enum[present,absent]
	AttrPower         = "power"          // enum[on,off]
	AttrRestartSerial = "restart_serial" // grows by one with each restart
	AttrComponent     = "component"      // component name, as in the inventory
	AttrSliverType    = "sliver_type"
	AttrImage         = "image"
	AttrHostname      = "hostname"
	AttrClientID      = "client_id"  // the experimenter's name for the node
	AttrSliceURN      = "slice_urn"  // of the slice that the node belongs to
	AttrSliverURN     = "sliver_urn" // of the node itself; name is its name part
	AttrUsers         = "users"      // items: {"login":…,"urn":…,"keys":[…]}
	AttrInterfaces    = "interfaces" // items: {"client_id":…,"link":…,"slice":…,"component":…,"vlan":…,"addresses":[…],"shared_vlan":…,"properties":[…]}
	AttrSetup         = "setup"      // items: {"kind":"install","url":…,"install_path":…} and {"kind":"execute","shell":…,"command":…}
)

// Attributes of a node that the provider reports and nobody sets.
const (
	AttrState        = "state" // enum[pending,changing,ready,failed]
	AttrMessage      = "message"
	AttrAddresses    = "addresses"
	AttrOutside      = "outside"   // items: address or address:port-port
	AttrLogin        = "login"     // items: host:port or user@host:port
	AttrProxy        = "proxy"     // user@host:port
	AttrHostKeys     = "host_keys" // items: as in known_hosts, without the host
	AttrCapabilities = "capabilities"
	AttrServices     = "services" // items, as those of setup: {"state":"done","exit":0,"message":…,"output":…}
)

// Values of ensure and power.
const (
	Present = "present"
	Absent  = "absent"
	On      = "on"
	Off     = "off"
)

// RoleControl marks the item of interfaces that tells a public address.
const RoleControl = "control"

// Values of state.
const (
	// StatePending: accepted, not begun.
	StatePending = "pending"
	// StateChanging: still working.
	StateChanging = "changing"
	// StateReady: is as last asked, on or off.
	StateReady = "ready"
	// StateFailed: cannot be as last asked.
	StateFailed = "failed"
)

// Bounds on what is read from an observed node.
const (
	maxAddresses = 64
	maxLogins    = 64
	maxOutside   = 64
	maxHostKeys  = 16
	maxAccounts  = 1000
	maxKeys      = 100
)

// account is one item of users.
type account struct {
	Login string   `json:"login"`
	URN   string   `json:"urn,omitempty"`
	Keys  []string `json:"keys"`
}

// complete is a with a list of keys, however short.
func (a account) complete() account {
	if a.Keys == nil {
		a.Keys = []string{}
	}
	return a
}

// DesiredNode is what the sliver's promise asks of its provider, but for Setup. component is
// the component's name in the inventory, hostname the name the node shall give
// itself, and port the name that a physical interface has on its component;
// where port is nil or answers nothing, the interface's URN tells. A sliver that
// shall be gone asks only for that.
func DesiredNode(s *am.Sliver, component, hostname string, port func(urn.URN) string) Resource {
	if !s.Desired.Present {
		return Resource{AttrName: s.URN.Name, AttrEnsure: Absent}
	}
	r := Resource{
		AttrName:          s.URN.Name,
		AttrEnsure:        Present,
		AttrPower:         Off,
		AttrRestartSerial: strconv.Itoa(s.Desired.RestartSerial),
		AttrComponent:     component,
		AttrSliverType:    s.SliverType,
		AttrImage:         s.Image,
		AttrHostname:      hostname,
		AttrClientID:      s.ClientID,
		AttrSliceURN:      s.Slice.String(),
		AttrSliverURN:     s.URN.String(),
		AttrUsers:         users(s.Desired.Accounts),
		AttrInterfaces:    interfaces(s, component, port),
	}
	if s.Desired.On {
		r[AttrPower] = On
	}
	return r
}

func users(accounts []am.Account) []string {
	list := make([]string, 0, len(accounts))
	for _, a := range accounts {
		list = append(list, encode(account{Login: a.Login, URN: a.User.String(), Keys: a.Keys}.complete()))
	}
	slices.Sort(list)
	return list
}

// Gone tells whether r is no resource, or one that is absent. A resource
// reported without ensure is there.
func Gone(r Resource) bool {
	return len(r) == 0 || r.Text(AttrEnsure) == Absent
}

// PowerOn tells whether r was last asked to be on. A provider that does not
// know power keeps its nodes on.
func PowerOn(r Resource) bool {
	return !Gone(r) && r.Text(AttrPower) != Off
}

// ObservedNode is what r, as Get returned it, says of a node. What is not an
// address, a range of ports outside, an endpoint, a host key, an account or a hardware address is left out;
// whether the interfaces are the node's is for the caller to see. A node whose
// provider reports no state is ready; of one that is gone nothing is known.
func ObservedNode(r Resource) am.Observed {
	if Gone(r) {
		return am.Observed{}
	}
	o := am.Observed{
		State:     r.Text(AttrState),
		Message:   clean(r.Text(AttrMessage), maxMessage),
		Addresses: keep(r.List(AttrAddresses), maxAddresses, address),
		Outside:   keep(r.List(AttrOutside), maxOutside, isOutside),
		Logins:    keep(r.List(AttrLogin), maxLogins, isEndpoint),
		HostKeys:  keep(r.List(AttrHostKeys), maxHostKeys, isHostKey),
		Accounts:  accounts(r.List(AttrUsers)),
		Services:  services(r.List(AttrServices)),
	}
	o.MACs, o.Emulators = wires(r.List(AttrInterfaces))
	if o.State == "" {
		o.State = StateReady
	}
	if p := r.Text(AttrProxy); isEndpoint(p) && strings.Contains(p, "@") {
		o.Proxy = p
	}
	return o
}

func keep(items []string, limit int, valid func(string) bool) []string {
	var out []string
	for _, s := range items {
		if len(out) == limit {
			break
		}
		if valid(s) {
			out = append(out, s)
		}
	}
	return out
}

func address(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

// isOutside accepts an address, and address:port-port with the smaller port
// first, IPv6 addresses in brackets there.
func isOutside(s string) bool {
	if address(s) {
		return true
	}
	ap, last, ok := strings.Cut(s, "-")
	first, err := netip.ParseAddrPort(ap)
	if !ok || err != nil || first.Addr().Zone() != "" || first.Port() == 0 || len(last) > 5 {
		return false
	}
	n, err := strconv.ParseUint(last, 10, 16)
	return err == nil && uint16(n) >= first.Port()
}

// isEndpoint accepts host:port and user@host:port.
func isEndpoint(s string) bool {
	if len(s) > 400 {
		return false
	}
	if user, rest, ok := strings.Cut(s, "@"); ok {
		if !word(user) {
			return false
		}
		s = rest
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && (isHostname(host) || address(host))
}

func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && (i == 0 || c != '-' && c != '.' && c != '_') {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isHostKey accepts "type base64 comment", where base64 begins with its type.
func isHostKey(s string) bool {
	f := strings.Fields(s)
	if len(s) > 16<<10 || len(f) < 2 || clean(s, len(s)) != s {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(f[1])
	return err == nil && len(b) > 4+len(f[0]) && string(b[4:4+len(f[0])]) == f[0]
}

func accounts(items []string) []am.Account {
	var out []am.Account
	for _, s := range items {
		var a account
		if len(out) == maxAccounts || json.Unmarshal([]byte(s), &a) != nil || !word(a.Login) {
			continue
		}
		who, _ := urn.Parse(a.URN) // an account may be nobody's
		a.Keys = keep(a.Keys, maxKeys, func(k string) bool { return k != "" && clean(k, len(k)) == k })
		out = append(out, am.Account{Login: a.Login, User: who, Keys: a.Keys})
	}
	return out
}
