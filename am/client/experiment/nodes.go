package experiment

import (
	"net"
	"slices"
	"strconv"
	"time"

	"patchbay/rspec/view"
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
	d, err := view.Read(text, xmltree.Limits{})
	if err != nil {
		return Manifest{}, err
	}
	expires, _ := time.Parse(time.RFC3339, d.Expires) // zero if it has none
	return Manifest{NodesOf(d, user), expires}, nil
}

// NodesOf returns the nodes of a manifest that was read before, as ReadManifest does.
func NodesOf(d *view.Document, user string) []Node {
	nodes := make([]Node, len(d.Nodes))
	for i, n := range d.Nodes {
		nodes[i] = Node{Name: n.Name, Sliver: n.Sliver, Component: n.Component}
		nodes[i].Login, nodes[i].Gateway, nodes[i].Unsafe = chooseLogin(n, user)
	}
	for _, l := range d.Links {
		for _, e := range l.Ends {
			if e.Node < 0 {
				continue
			}
			for _, a := range d.Nodes[e.Node].Interfaces[e.Interface].Addresses {
				nodes[e.Node].Addresses = append(nodes[e.Node].Addresses, Address{l.Name, a})
			}
		}
	}
	return nodes
}

// Command returns the command line that logs in; "" without a login.
func (n Node) Command() string {
	if !n.Login.Exists() {
		return ""
	}
	way := view.Way{Login: n.Login.inView()}
	if n.Gateway.Exists() {
		way.Gateway = n.Gateway.inView()
	}
	return way.Command("")
}

func (l Login) inView() view.Login {
	return view.Login{User: l.User, Host: l.Host, Port: strconv.Itoa(l.Port)}
}

// chooseLogin chooses the login of a node, with its gateway: the first login of user, or
// else the first of any account. notSafe is a login that is not used; "" if login is set.
func chooseLogin(n view.Node, user string) (login, gateway Login, notSafe string) {
	ways, unsafe := n.Ways()
	if len(ways) == 0 {
		return login, gateway, unsafe
	}
	i := max(0, slices.IndexFunc(ways, func(w view.Way) bool { return w.Login.User == user }))
	return loginOf(ways[i].Login), loginOf(ways[i].Gateway), ""
}

func loginOf(l view.Login) Login {
	port, _ := strconv.Atoi(l.Port) // Ways returns only numbers
	return Login{l.User, l.Host, port}
}

// String returns user@host:port.
func (l Login) String() string {
	return l.User + "@" + net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
}
