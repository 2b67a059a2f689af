package experiment

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/rspec/hostname"
)

// Domain is the last part of the nodes' names for OpenSSH: NODE.SLICE.patchbay.
const Domain = "patchbay"

// Host is a node as OpenSSH knows it.
type Host struct {
	Node
	// Alias is NODE.SLICE.patchbay, where NODE is the client_id, or else a host name.
	Alias string
	// aliases are all its names, Alias first, and names the spellings of NODE in them.
	aliases, names []string
	// key is the alias of its host name, in lower case as OpenSSH writes names into known_hosts.
	key string
}

// Hosts returns the nodes of a slice with names for OpenSSH.
func Hosts(slice string, nodes []Node) []Host {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.Name
	}
	hosts := make([]Host, len(nodes))
	slice = label(slice)
	for i, names := range hostname.Spellings(ids) {
		var aliases []string
		for _, in := range slices.Compact([]string{slice, strings.ToLower(slice)}) {
			for _, name := range names {
				aliases = append(aliases, name+"."+in+"."+Domain)
			}
		}
		hosts[i] = Host{nodes[i], aliases[0], aliases, names, names[len(names)-1] + "." + strings.ToLower(slice) + "." + Domain}
	}
	return hosts
}

// Named returns the hosts that a name means: NODE, NODE.SLICE or NODE.SLICE.patchbay. A client_id as it is
// written counts first, then the other names, and then names without case.
func Named(hosts []Host, name string) []Host {
	for _, isNamed := range []func(Host) bool{
		func(h Host) bool { return h.Name == name },
		func(h Host) bool { return h.isNamed(name, func(a, b string) bool { return a == b }) },
		func(h Host) bool { return strings.EqualFold(h.Name, name) || h.isNamed(name, strings.EqualFold) },
	} {
		var found []Host
		for _, h := range hosts {
			if isNamed(h) {
				found = append(found, h)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func (h Host) isNamed(name string, isEqual func(a, b string) bool) bool {
	is := func(s string) bool { return isEqual(s, name) }
	return slices.ContainsFunc(h.names, is) || slices.ContainsFunc(h.aliases, func(s string) bool { return is(s) || is(strings.TrimSuffix(s, "."+Domain)) })
}

// label is a part of a name for OpenSSH: characters with a meaning become hyphens.
func label(s string) string {
	const most = 63
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, s)
	if name = strings.TrimLeft(name, "-"); name == "" {
		name = "node"
	}
	return name[:min(len(name), most)]
}

// SSHFiles are the files that SSHConfig names. Without an Identity, OpenSSH offers the
// keys of the user's agent and of ~/.ssh.
type SSHFiles struct{ Identity, KnownHosts string }

// SSHConfig returns the configuration of OpenSSH for hosts that have a login. From the manifest
// it contains only logins, gateways and names. Manifests have no host keys, so OpenSSH trusts
// the first host key of a sliver. It refuses any other key later.
func SSHConfig(hosts []Host, f SSHFiles) []byte {
	var b strings.Builder
	b.WriteString("# Written by patchbay; changes are lost. For ssh -F FILE, or Include FILE in ~/.ssh/config.\n")
	identity := ""
	if f.Identity != "" {
		identity = fmt.Sprintf("  IdentityFile %s\n  IdentitiesOnly yes\n", quote(f.Identity))
	}
	common := func(l Login) {
		fmt.Fprintf(&b, "  HostName %s\n  Port %d\n  User %s\n%s  UserKnownHostsFile %s\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n",
			l.Host, l.Port, l.User, identity, quote(f.KnownHosts))
	}
	for _, h := range hosts {
		if !h.Login.Exists() {
			continue
		}
		fmt.Fprintf(&b, "\nHost %s\n", strings.Join(h.aliases, " "))
		common(h.Login)
		fmt.Fprintf(&b, "  HostKeyAlias %s\n", h.keyAlias())
		if h.Gateway.Exists() { // its name does not end like those of nodes
			fmt.Fprintf(&b, "  ProxyJump %s.gateway\n\nHost %[1]s.gateway\n", h.Alias)
			common(h.Gateway)
		}
	}
	return []byte(b.String())
}

// keyAlias differs for each sliver, since a new sliver of the same node has another key.
func (h Host) keyAlias() string {
	u, err := urn.Parse(h.Sliver)
	if err != nil {
		return h.key
	}
	return strings.ToLower(label(u.Name)) + "." + h.key
}

// PruneKnownHosts removes from a known_hosts file the lines of nodes that are not among
// hosts. It keeps other lines, such as those of gateways.
func PruneKnownHosts(text []byte, hosts []Host) []byte {
	have := map[string]bool{}
	for _, h := range hosts {
		have[h.keyAlias()] = true
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		if have[name] || !strings.HasSuffix(name, "."+Domain) {
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

// quote quotes a path for OpenSSH, which would expand a single %. Check refuses paths that
// cannot be quoted.
func quote(path string) string {
	return `"` + strings.ReplaceAll(path, "%", "%%") + `"`
}

// Check fails for a path that OpenSSH cannot read from a configuration.
func (f SSHFiles) Check() error {
	for _, path := range []string{f.Identity, f.KnownHosts} {
		if strings.ContainsAny(path, "\"\n\r\\") || strings.Contains(path, "${") {
			return fmt.Errorf("OpenSSH cannot read the path %q, since it holds a quote, a backslash, a line end or ${; move the folder", path)
		}
	}
	return nil
}
