package experiment

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/rspec/draw"
	"patchbay/schemas/xmltree"
)

// Node is a node of a manifest with its login.
type Node struct {
	Name string
	// Sliver is the URN of its sliver.
	Sliver string
	// Component is the name of its component; "" if the manifest has none.
	Component string
	// Addresses are the addresses of its interfaces.
	Addresses []Address
	// Login is the zero value if the manifest has no login that is safe to use.
	Login Login
	// Gateway is the SSH gateway in front of Login; the zero value for none.
	Gateway Login
	// Unsafe is a login of the manifest that is not used, because a part of it has a special
	// meaning to OpenSSH; "" if Login is set.
	Unsafe string
}

// Address is an address on a link, both as the manifest writes them.
type Address struct {
	Link    string `json:"link"`
	Address string `json:"address"`
}

// Login is an account at an SSH server. Its fields have only letters, digits and
// characters without a special meaning to OpenSSH or a shell.
type Login struct {
	User string `json:"user"`
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Exists reports whether there is a login.
func (l Login) Exists() bool { return l.Host != "" }

// Manifest is the part of a manifest that experimenters need.
type Manifest struct {
	Nodes []Node
	// Expires is the earliest end of leases; zero if the manifest has none.
	Expires time.Time
}

// ReadManifest reads a manifest. If a node has several accounts, ReadManifest uses the account
// of the given user, or else the first account.
func ReadManifest(text []byte, user string) (Manifest, error) {
	p, err := draw.Read(text, xmltree.Limits{})
	if err != nil {
		return Manifest{}, err
	}
	nodes := make([]Node, len(p.Nodes))
	for i, n := range p.Nodes {
		nodes[i] = Node{Name: n.Name, Sliver: n.Sliver, Component: n.Component}
		nodes[i].Login, nodes[i].Gateway, nodes[i].Unsafe = chooseLogin(n, user)
	}
	for _, l := range p.Links {
		for _, e := range l.Ends {
			if e.Node < 0 {
				continue
			}
			for _, a := range p.Nodes[e.Node].Interfaces[e.Interface].Addresses {
				nodes[e.Node].Addresses = append(nodes[e.Node].Addresses, Address{l.Name, a})
			}
		}
	}
	expires, _ := time.Parse(time.RFC3339, p.Expires) // zero if it has none
	return Manifest{nodes, expires}, nil
}

// chooseLogin chooses the login of a node, with its gateway: the first login of user, or
// else the first of any account. It skips a login at the gateway itself. notSafe is a login
// that safeLogin refuses; "" if login is set.
func chooseLogin(n draw.Node, user string) (login, gateway Login, notSafe string) {
	gateways := map[string]Login{}
	var behind []draw.Proxy
	for _, p := range n.Proxies {
		if g, ok := parseProxy(p.Gateway); ok {
			gateways[g.String()] = g
			behind = append(behind, p)
		}
	}
	for _, l := range n.Logins {
		x, ok := safeLogin(l.User, l.Host, l.Port)
		if !ok {
			notSafe = l.User + "@" + l.Host + ":" + l.Port
			continue
		}
		if _, isGateway := gateways[x.String()]; isGateway && len(n.Logins) > 1 {
			continue
		}
		if login.Exists() && (login.User == user || x.User != user) {
			continue
		}
		login, gateway = x, Login{}
		i := slices.IndexFunc(behind, func(p draw.Proxy) bool {
			to, ok := parseProxy(p.Login)
			return ok && to == x
		})
		if i >= 0 {
			gateway, _ = parseProxy(behind[i].Gateway)
		}
	}
	if login.Exists() {
		notSafe = ""
	}
	return login, gateway, notSafe
}

// String returns user@host:port.
func (l Login) String() string {
	return l.User + "@" + net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
}

var (
	safeUsers = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	safeHosts = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,253}[A-Za-z0-9_.])?$`)
)

// safeLogin returns a login if no part has a special meaning to OpenSSH: the host is a
// name or an IP address, and no part begins with a hyphen.
func safeLogin(user, host, port string) (Login, bool) {
	l := Login{User: user, Host: strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), Port: 22}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Login{}, false
		}
		l.Port = int(n)
	}
	if ip := net.ParseIP(l.Host); ip == nil && !safeHosts.MatchString(l.Host) || !safeUsers.MatchString(user) {
		return Login{}, false
	}
	return l, true
}

// parseProxy returns false if the text is not user@host:port, or not safe.
func parseProxy(s string) (Login, bool) {
	user, at, ok := strings.Cut(s, "@")
	host, port, err := net.SplitHostPort(at)
	if !ok || err != nil {
		return Login{}, false
	}
	return safeLogin(user, host, port)
}
