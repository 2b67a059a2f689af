package hostname

import (
	"slices"
	"strconv"
	"strings"
)

// Lengths in bytes.
const (
	maxLabel  = 63  // a label of a host name (RFC 1123)
	maxNumber = 6   // a number that Assign adds, with its hyphen
	maxName   = 253 // a name in the DNS
	maxHost   = 64  // the name of a Linux host
)

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits
)

// loopback are names that the images of nodes give to the node itself and to groups of addresses.
var loopback = []string{
	"localhost", "localhost4", "localhost6",
	"ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts",
}

// groups are the names of Ansible's own groups.
var groups = []string{"all", "ungrouped"}

// IsLoopback reports whether s is a name of the node itself, such as localhost, which no other node can
// have.
func IsLoopback(s string) bool {
	s = lower(strings.TrimRight(s, "."))
	first, _, _ := strings.Cut(s, ".")
	last := s[strings.LastIndexByte(s, '.')+1:]
	return slices.Contains(loopback, first) || slices.Contains([]string{"localhost", "localdomain", "localdomain4", "localdomain6"}, last)
}

// IsName reports whether s can be a name of a node in /etc/hosts.
func IsName(s string) bool { return Problem(s) == "" }

// Problem says why s cannot be a name of a node in /etc/hosts; empty if it can.
func Problem(s string) string {
	labels := strings.Split(s, ".")
	switch {
	case strings.Trim(s, letters+"-_.") != "":
		return "it has other characters than ASCII letters, digits, hyphens, underscores and dots"
	case s == "" || s[0] == '-' || slices.Contains(labels, ""):
		return "it begins with a hyphen, or has a dot without a name before and after it"
	case len(s) > maxName || slices.ContainsFunc(labels, func(l string) bool { return len(l) > maxLabel }):
		return "it has more than 63 characters without a dot, or more than 253"
	case isNumeric(labels):
		return "programs read it as an address"
	case IsLoopback(s):
		return "it is a name of the node itself"
	}
	return ""
}

// isNumeric reports whether resolvers may read the name as an IPv4 address: 10.1 is 10.0.0.1, and 0x0a is
// 0.0.0.10.
func isNumeric(labels []string) bool {
	return len(labels) <= 4 && !slices.ContainsFunc(labels, func(l string) bool {
		hexadecimal, ok := strings.CutPrefix(lower(l), "0x")
		return strings.Trim(l, digits) != "" && !(ok && strings.Trim(hexadecimal, digits+"abcdef") == "")
	})
}

// lower returns s with the letters of ASCII in lower case, as resolvers compare names.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// IsHost reports whether s can be the name of a Linux host.
func IsHost(s string) bool {
	return len(s) <= maxHost && s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"-.") == "" && !strings.Contains(s, "..")
}

// Label converts s to a label of at most limit characters: letters become lower case, and each run of other
// characters between letters or digits becomes one hyphen. It returns fallback if s has no letter or digit.
func Label(s, fallback string, limit int) string {
	var b strings.Builder
	hyphen := false
	for i := 0; i < len(s) && b.Len() < limit; i++ {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
		default:
			hyphen = b.Len() > 0
			continue
		}
		if hyphen && b.Len() < limit-1 {
			b.WriteByte('-')
		}
		hyphen = false
		b.WriteByte(c)
	}
	if b.Len() == 0 {
		return fallback
	}
	return b.String()
}

// fold returns the host name that a client_id would have alone.
func fold(clientID string) string {
	name := Label(clientID, "node", maxLabel)
	if Problem(name) != "" || slices.Contains(groups, name) {
		name = "node-" + name[:min(len(name), maxLabel-len("node-"))]
	}
	return name
}

// Node is a node of a slice.
type Node struct {
	ClientID string
	// DNSNames are the DNS names that the request gives the node, in its order.
	DNSNames []string
	// Hostname and DNSName are those that Assign chose. Hostname is empty until then, and DNSName if the
	// node has no DNS name. Hostname is the first part of DNSName.
	Hostname, DNSName string
}

// Assign chooses the host names of the nodes that have none, and the first of their DNS names that no other
// node has. Names are given in this order: from DNS names, from client_ids that need no number, with a number.
func Assign(nodes []Node) {
	a := newAssignment(nodes)
	var rest []int
	for i := range nodes {
		if nodes[i].Hostname == "" && !a.assignDNS(i) {
			rest = append(rest, i)
		}
	}
	bases, wanted := make([]string, len(rest)), map[string]int{}
	for k, i := range rest {
		bases[k] = fold(nodes[i].ClientID)
		wanted[bases[k]]++
	}
	for k, i := range rest {
		if base := bases[k]; a.isFree(base, i) && (wanted[base] == 1 || lower(nodes[i].ClientID) == base) {
			a.take(i, base)
		}
	}
	next := map[string]int{} // the number to try first, by the part of the name that stays before every number
	for k, i := range rest {
		uncut := bases[k][:min(len(bases[k]), maxLabel-maxNumber)]
		for n := max(2, next[uncut]); nodes[i].Hostname == ""; n++ {
			number := "-" + strconv.Itoa(n)
			name := strings.TrimRight(bases[k][:min(len(bases[k]), maxLabel-len(number))], "-") + number
			if a.isFree(name, i) {
				a.take(i, name)
				next[uncut] = n + 1
			}
		}
	}
}

// assignment has the names in use, in lower case.
type assignment struct {
	nodes []Node
	hosts map[string]bool
	ids   map[string][]int // nodes by client_id
}

func newAssignment(nodes []Node) *assignment {
	a := &assignment{nodes, map[string]bool{}, map[string][]int{}}
	for i, n := range nodes {
		id := lower(n.ClientID)
		a.ids[id] = append(a.ids[id], i)
		if n.Hostname != "" {
			a.take(i, n.Hostname)
		}
	}
	return a
}

// take gives node i a host name. Its DNSName must be set before, since others cannot have that either.
func (a *assignment) take(i int, host string) {
	a.nodes[i].Hostname = host
	a.hosts[lower(host)] = true
	if dns := a.nodes[i].DNSName; dns != "" {
		a.hosts[lower(dns)] = true
	}
}

// isFree reports whether the name is neither a host name nor the client_id of another node.
func (a *assignment) isFree(name string, i int) bool {
	name = lower(name)
	return !a.hosts[name] && !slices.ContainsFunc(a.ids[name], func(other int) bool { return other != i })
}

// assignDNS gives node i the first of its DNS names that is free, and returns false if there is none.
func (a *assignment) assignDNS(i int) bool {
	for _, name := range a.nodes[i].DNSNames {
		host, _, _ := strings.Cut(name, ".")
		if len(name) <= maxHost && IsName(name) && IsName(host) && a.isFree(host, i) && a.isFree(name, i) {
			a.nodes[i].DNSName = name
			a.take(i, host)
			return true
		}
	}
	return false
}

// Name returns for each node the name by which the others and the inventories of playbooks know it: its
// client_id if that is a name, or else its host name. Assign has chosen the host names.
func Name(nodes []Node) []string {
	a := newAssignment(nodes)
	names := make([]string, len(nodes))
	for i, n := range nodes {
		if names[i] = n.Hostname; a.resolves(i) && !slices.Contains(groups, n.ClientID) {
			names[i] = n.ClientID
		}
	}
	return names
}

// resolves reports whether the client_id of a node is a name of it in /etc/hosts.
func (a *assignment) resolves(i int) bool {
	n := &a.nodes[i]
	id := lower(n.ClientID)
	return IsName(n.ClientID) && len(a.ids[id]) == 1 && (!a.hosts[id] || id == lower(n.Hostname) || id == lower(n.DNSName))
}

// Spellings returns for each node the names by which programs that compare names with case know it. The
// first one is the client_id, if it has only characters of names and no other node has it; the last one is
// the host name that the node would have in a request of these nodes.
func Spellings(clientIDs []string) [][]string {
	nodes := make([]Node, len(clientIDs))
	for i, id := range clientIDs {
		nodes[i].ClientID = id
	}
	Assign(nodes)
	a := newAssignment(nodes)
	all := make([][]string, len(nodes))
	written := map[string]int{}
	for _, id := range clientIDs {
		written[id]++
	}
	for i, n := range nodes {
		id := n.ClientID
		if written[id] == 1 && id != "" && strings.Trim(id, letters+"-_.") == "" && id[0] != '-' && id[0] != '.' {
			if all[i] = append(all[i], id); len(a.ids[lower(id)]) == 1 {
				all[i] = append(all[i], lower(id))
			}
		}
		all[i] = append(all[i], n.Hostname)
		all[i] = slices.Compact(all[i]) // equal ones are neighbours
	}
	return all
}
