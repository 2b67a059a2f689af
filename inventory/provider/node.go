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
	"patchbay/rspec/match"
)

// TypeNode is the type of providers that make nodes.
const TypeNode = "node"

// Attributes of a node that the manager sets. AttrGranted and AttrSetup are write-only.
const (
	AttrName          = "name"           // UUID: the name part of the sliver's URN
	AttrEnsure        = "ensure"         // enum[present,absent]
	AttrPower         = "power"          // enum[on,off]
	AttrRestartSerial = "restart_serial" // increases by one with each restart
	AttrComponent     = "component"      // component name, as in the inventory
	AttrSliverType    = "sliver_type"
	AttrImage         = "image"
	AttrHostname      = "hostname"
	AttrClientID      = "client_id"   // the experimenter's name for the node
	AttrSliceURN      = "slice_urn"   // of the node's slice
	AttrSliverURN     = "sliver_urn"  // of the node itself; AttrName is its name part
	AttrUsers         = "users"       // items: {"login":…,"urn":…,"keys":[…]}
	AttrInterfaces    = "interfaces"  // items: {"client_id":…,"link":…,"slice":…,"component":…,"vlan":…,"addresses":[…],"shared_vlan":…,"properties":[…]}
	AttrGranted       = "granted"     // items: feature=value
	AttrSetup         = "setup"       // items: step.Step
	AttrSetupStage    = "setup_stage" // the highest stage of steps that may run
	// AttrChangeSerial increases by one with each change of "interfaces" or "setup". A provider with
	// it can change both while the node exists.
	AttrChangeSerial = "change_serial"
)

// Attributes of a node that only the provider reports.
const (
	AttrState        = "state" // enum[pending,changing,ready,failed]
	AttrMessage      = "message"
	AttrAddresses    = "addresses"
	AttrOutside      = "outside"      // items: address or address:port-port
	AttrLogin        = "login"        // items: host:port or user@host:port
	AttrProxy        = "proxy"        // user@host:port
	AttrHostKeys     = "host_keys"    // items: as in known_hosts, without the host
	AttrCapabilities = "capabilities" // items: feature=value or feature=min..max
	AttrServices     = "services"     // items, in the order of setup: {"state":"done","exit":0,"message":…,"output":…}
)

// Values of the attributes "ensure" and "power".
const (
	Present = "present"
	Absent  = "absent"
	On      = "on"
	Off     = "off"
)

// RoleControl is the role of the item of "interfaces" that holds the node's public address.
const RoleControl = "control"

// Values of the attribute "state".
const (
	// StatePending: the request is accepted, and the work has not begun.
	StatePending = "pending"
	// StateChanging: the work is in progress.
	StateChanging = "changing"
	// StateReady: the node is in the state that was last requested, on or off.
	StateReady = "ready"
	// StateFailed: the node cannot reach the state that was last requested.
	StateFailed = "failed"
)

// Limits of an observed node.
const (
	maxAddresses = 64
	maxLogins    = 64
	maxOutside   = 64
	maxHostKeys  = 16
	maxAccounts  = 1000
	maxKeys      = 100
)

// account is one item of the attribute "users".
type account struct {
	Login string   `json:"login"`
	URN   string   `json:"urn,omitempty"`
	Keys  []string `json:"keys"`
}

// complete returns an empty list of keys instead of nil, so that the JSON text has [].
func (a account) complete() account {
	if a.Keys == nil {
		a.Keys = []string{}
	}
	return a
}

// DesiredNode returns the resource that the sliver's desired state requires, without the
// attributes of NewNode. The parameter component is the component's name in the inventory, and
// hostname is the node's own host name. The function portName returns the name of a physical
// interface that the sliver's record does not name; if portName is nil or returns "", the
// name comes from the interface's URN. For a sliver that must not exist, the resource has
// only the attributes "name" and "ensure", and "setup_stage" if steps for Uninstall must not run.
func DesiredNode(s *am.Sliver, component, hostname string, portName func(urn.URN) string) Resource {
	if !s.Desired.Present {
		r := Resource{AttrName: s.URN.Name, AttrEnsure: Absent}
		if !s.Desired.Uninstall && s.HasUninstall() {
			r[AttrSetupStage] = "-1"
		}
		return r
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
		AttrInterfaces:    interfaces(s, component, portName),
	}
	if s.Desired.On {
		r[AttrPower] = On
	}
	if s.Desired.ChangeSerial > 0 {
		r[AttrChangeSerial] = strconv.Itoa(s.Desired.ChangeSerial)
	}
	if len(s.Setup) > 0 {
		stage := s.Desired.Stage
		if s.Frozen { // the steps for Stop do not run either
			stage = -1
		}
		r[AttrSetupStage] = strconv.Itoa(stage)
	}
	return r
}

// users returns the accounts as items of the attribute "users", sorted.
func users(accounts []am.Account) []string {
	list := make([]string, 0, len(accounts))
	for _, a := range accounts {
		list = append(list, encode(account{Login: a.Login, URN: a.User.String(), Keys: a.Keys}.complete()))
	}
	slices.Sort(list)
	return list
}

// Gone reports whether r is empty, or its attribute "ensure" is absent. A resource that has
// attributes, but not "ensure", exists.
func Gone(r Resource) bool {
	return len(r) == 0 || r.Text(AttrEnsure) == Absent
}

// PowerOn reports whether r exists and its attribute "power" is not off. Nodes of a provider
// without that attribute are always on.
func PowerOn(r Resource) bool {
	return !Gone(r) && r.Text(AttrPower) != Off
}

// ObservedNode converts r, a node that Get returned. It drops invalid addresses, port ranges,
// logins, host keys, accounts, capabilities and MAC addresses. The caller checks whether the interfaces
// belong to the node. A node without the attribute "state" is ready. For a node that does not
// exist, ObservedNode returns the zero value.
func ObservedNode(r Resource) am.Observed {
	if Gone(r) {
		return am.Observed{}
	}
	o := am.Observed{
		State:     r.Text(AttrState),
		Message:   clean(r.Text(AttrMessage), maxMessage),
		Addresses: firstValid(r.List(AttrAddresses), maxAddresses, isAddress),
		Outside:   firstValid(r.List(AttrOutside), maxOutside, isOutside),
		Logins:    firstValid(r.List(AttrLogin), maxLogins, isEndpoint),
		HostKeys:  firstValid(r.List(AttrHostKeys), maxHostKeys, isHostKey),
		Accounts:  accounts(r.List(AttrUsers)),
		Services:  services(r.List(AttrServices)),
	}
	_, o.Capabilities, _ = match.ParseItems(r.List(AttrCapabilities))
	o.MACs, o.Emulators = macsAndEmulators(r.List(AttrInterfaces))
	if o.State == "" {
		o.State = StateReady
	}
	if stage, err := strconv.Atoi(r.Text(AttrSetupStage)); err == nil {
		o.Stage = stage
	}
	if serial, err := strconv.Atoi(r.Text(AttrChangeSerial)); err == nil {
		o.ChangeSerial = serial
	}
	if p := r.Text(AttrProxy); isEndpoint(p) && strings.Contains(p, "@") {
		o.Proxy = p
	}
	return o
}

// firstValid returns the first valid items, at most limit.
func firstValid(items []string, limit int, valid func(string) bool) []string {
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

// isAddress reports whether s is an IP address without a zone.
func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

// isOutside reports whether s is an address or has the form address:port-port, with the
// smaller port first. In the second form an IPv6 address is in brackets.
func isOutside(s string) bool {
	if isAddress(s) {
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

// isEndpoint reports whether s is host:port or user@host:port.
func isEndpoint(s string) bool {
	if len(s) > 400 {
		return false
	}
	if user, rest, ok := strings.Cut(s, "@"); ok {
		if !isName(user) {
			return false
		}
		s = rest
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && (isHostname(host) || isAddress(host))
}

// isHostname reports whether s is at most 253 letters, digits, hyphens, dots and
// underscores and begins with a letter or digit.
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

// isHostKey reports whether s is "type base64" with an optional comment, and the decoded key
// begins with the same type.
func isHostKey(s string) bool {
	f := strings.Fields(s)
	if len(s) > 16<<10 || len(f) < 2 || clean(s, len(s)) != s {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(f[1])
	return err == nil && len(b) > 4+len(f[0]) && string(b[4:4+len(f[0])]) == f[0]
}

// accounts returns the accounts in items of "users", at most maxAccounts. It drops invalid items.
func accounts(items []string) []am.Account {
	var out []am.Account
	for _, s := range items {
		var a account
		if len(out) == maxAccounts || json.Unmarshal([]byte(s), &a) != nil || !isName(a.Login) {
			continue
		}
		who, _ := urn.Parse(a.URN) // an invalid or empty URN is allowed: the account then has no user
		a.Keys = firstValid(a.Keys, maxKeys, func(k string) bool { return k != "" && clean(k, len(k)) == k })
		out = append(out, am.Account{Login: a.Login, User: who, Keys: a.Keys})
	}
	return out
}
