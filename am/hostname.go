package am

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

// maxLabel is the length of the longest label of a host name (RFC 1123).
const maxLabel = 63

// maxHostname is the length of the longest name of a Linux host.
const maxHostname = 64

// Hostnames assigns host names to the nodes of a slice. It never assigns a name twice.
type Hostnames struct {
	taken map[string]bool
	next  map[string]int // for each name without a number, the next number to try
}

// Take marks name as in use.
func (h *Hostnames) Take(name string) {
	if h.taken == nil {
		h.taken, h.next = map[string]bool{}, map[string]int{}
	}
	h.taken[name] = true
}

// Assign derives a host name from a client_id, which may be any text, and marks it as
// in use. Letters become lower case; other characters become hyphens. A name that is
// in use already gets a number.
func (h *Hostnames) Assign(clientID string) string {
	base := label(clientID, "node", maxLabel-6)
	name := base
	for n := max(2, h.next[base]); h.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
		h.next[base] = n + 1
	}
	h.Take(name)
	return name
}

// AssignDNS marks the first part of a DNS name as in use and returns it. ok is false if another node
// has the host name, or the DNS name is longer than names of Linux hosts can be.
func (h *Hostnames) AssignDNS(name string) (hostname string, ok bool) {
	hostname, _, _ = strings.Cut(name, ".")
	if len(name) > maxHostname || h.taken[hostname] {
		return "", false
	}
	h.Take(hostname)
	return hostname, true
}

// reservedLogins are accounts and groups of the usual images, and names with a special
// meaning there.
var reservedLogins = []string{
	"adm", "admin", "audio", "avahi", "backup", "bin", "cdrom",
	"crontab", "daemon", "dialout", "dip", "disk", "dnsmasq", "fax",
	"floppy", "ftp", "games", "gateway", "gnats", "halt", "input",
	"irc", "kmem", "kvm", "list", "lp", "mail", "man",
	"messagebus", "mysql", "netdev", "news", "nobody", "nogroup", "ntp",
	"operator", "plugdev", "polkitd", "postfix", "postgres", "proxy",
	"redis", "render", "root", "sasl", "sgx", "shadow", "shutdown",
	"src", "ssh", "sshd", "ssl-cert", "staff", "statd", "sudo",
	"sync", "sys", "syslog", "systemd", "systemd-journal", "systemd-network",
	"systemd-resolve", "systemd-timesync", "tape", "tcpdump", "tty", "users",
	"utmp", "uucp", "uuidd", "video", "voice", "wheel", "www-data",
}

// maxLogin is the length of the longest login that Linux accepts.
const maxLogin = 32

var plainLogin = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// LoginName derives a login from the name of a user's URN, in lower case and cut to
// maxLogin characters. In a name that is not a valid login, each run of other characters
// than letters and digits becomes a hyphen. A login that would begin with a digit gets the
// prefix u. A login that is reserved, or for which isTaken returns true, gets a number.
func LoginName(user urn.URN, isTaken func(string) bool) string {
	base := strings.ToLower(user.Name)
	if !plainLogin.MatchString(base) {
		base = label(user.Name, "user", 28)
	}
	if base[0] >= '0' && base[0] <= '9' {
		base = "u" + base
	}
	base = base[:min(len(base), maxLogin)]
	for n, name := 1, base; ; n++ {
		if !slices.Contains(reservedLogins, name) && !isTaken(name) {
			return name
		}
		number := strconv.Itoa(n + 1)
		name = base[:min(len(base), maxLogin-len(number))] + number
	}
}

// label converts s to a label of at most limit characters: letters become lower case, and
// each run of other characters between letters or digits becomes one hyphen. It returns
// fallback if s has no letter or digit.
func label(s, fallback string, limit int) string {
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
