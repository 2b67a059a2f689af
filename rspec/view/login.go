package view

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Way is a login of a node, and the SSH gateway through which it is reached; the zero value for
// none. Their fields have only letters, digits and characters without a special meaning to OpenSSH
// or a shell. Their ports are numbers.
type Way struct{ Login, Gateway Login }

// Ways returns the safe logins of a node, each with its gateway, but not the logins at the gateways themselves. unsafe
// is the last login that it leaves out because a part has a special meaning, as user@host:port; "" for none.
func (n *Node) Ways() (ways []Way, unsafe string) {
	var gateways []Login
	var behind []Proxy // those with a safe gateway, in the order of gateways
	for _, p := range n.Proxies {
		if g, ok := parseProxy(p.Gateway); ok {
			gateways = append(gateways, g)
			behind = append(behind, p)
		}
	}
	for _, l := range n.Logins {
		x, ok := l.safe()
		if !ok {
			unsafe = l.User + "@" + l.Host + ":" + l.Port
			continue
		}
		if slices.Contains(gateways, x) && len(n.Logins) > 1 {
			continue
		}
		w := Way{Login: x}
		i := slices.IndexFunc(behind, func(p Proxy) bool {
			to, ok := parseProxy(p.Login)
			return ok && to == x
		})
		if i >= 0 {
			w.Gateway = gateways[i]
		}
		ways = append(ways, w)
	}
	return ways, unsafe
}

// Command returns a command line. With a gateway, it names the file of the key also for the gateway;
// with the key "", ssh chooses the keys.
func (w Way) Command(key string) string {
	option := ""
	if key != "" {
		option = "-i " + key + " "
	}
	words := func(l Login) string { return option + strings.TrimPrefix(l.String(), "ssh ") }
	switch {
	case w.Gateway.Host == "":
		return "ssh " + words(w.Login)
	case key == "":
		return "ssh -J " + w.Gateway.User + "@" + net.JoinHostPort(w.Gateway.Host, w.Gateway.Port) + " " + words(w.Login)
	}
	return "ssh -o 'ProxyCommand=ssh " + option + "-W [%h]:%p " + strings.TrimPrefix(words(w.Gateway), option) + "' " + words(w.Login)
}

// The expressions have no limits, because {0,253} takes milliseconds to compile at each start.
var (
	safeUsers = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	safeHosts = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)
)

// Maximal lengths of a safe user and host.
const (
	maxUser = 64
	maxHost = 255
)

// safe returns the login with a port and without brackets if no part has a special meaning to
// OpenSSH: the host is a name or an IP address, and no part begins with a hyphen.
func (l Login) safe() (Login, bool) {
	l.Host = strings.TrimSuffix(strings.TrimPrefix(l.Host, "["), "]")
	if l.Port == "" {
		l.Port = "22"
	}
	port, err := strconv.ParseUint(l.Port, 10, 16)
	if err != nil || port == 0 {
		return Login{}, false
	}
	l.Port = strconv.FormatUint(port, 10)
	if len(l.User) > maxUser || len(l.Host) > maxHost {
		return Login{}, false
	}
	if net.ParseIP(l.Host) == nil && !safeHosts.MatchString(l.Host) || !safeUsers.MatchString(l.User) {
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
	return Login{user, host, port}.safe()
}
