package experiment

import (
	"fmt"
	"strings"

	"patchbay/am/urn"
)

// Domain is the last part of the nodes' names for OpenSSH: NODE.SLICE.patchbay.
const Domain = "patchbay"

// Host is a node as OpenSSH knows it.
type Host struct {
	Node
	// Alias is NODE.SLICE.patchbay, in small letters.
	Alias string
}

// Hosts returns the nodes of a slice with names for OpenSSH. Characters that a host name
// cannot have become hyphens, and equal names get a number.
func Hosts(slice string, nodes []Node) []Host {
	taken := map[string]int{} // for each name in use, the last number that was appended to the name
	hosts := make([]Host, len(nodes))
	for i, n := range nodes {
		base := label(n.Name)
		name := base
		for taken[name] > 0 {
			taken[base]++
			name = fmt.Sprintf("%s-%d", base, taken[base])
		}
		taken[name] = 1
		hosts[i] = Host{n, name + "." + label(slice) + "." + Domain}
	}
	return hosts
}

func label(s string) string {
	const most = 63
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
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
		fmt.Fprintf(&b, "\nHost %s\n", h.Alias)
		common(h.Login)
		fmt.Fprintf(&b, "  HostKeyAlias %s\n", h.keyAlias())
		if h.Gateway.Exists() {
			fmt.Fprintf(&b, "  ProxyJump gateway.%s\n\nHost gateway.%[1]s\n", h.Alias)
			common(h.Gateway)
		}
	}
	return []byte(b.String())
}

// keyAlias differs for each sliver, since a new sliver of the same node has another key.
func (h Host) keyAlias() string {
	u, err := urn.Parse(h.Sliver)
	if err != nil {
		return h.Alias
	}
	return label(u.Name) + "." + h.Alias
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
