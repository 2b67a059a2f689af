package am

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

// maxLabel is the longest label of a host name (RFC 1123).
const maxLabel = 63

// Hostnames gives out the host names of a slice, each once.
type Hostnames struct {
	taken map[string]bool
	next  map[string]int // by the name without a number
}

// Take says that name is in use.
func (h *Hostnames) Take(name string) {
	if h.taken == nil {
		h.taken, h.next = map[string]bool{}, map[string]int{}
	}
	h.taken[name] = true
}

// For derives a host name from a client_id, which may be any text: letters are
// folded, other characters become hyphens. A name that is in use gets a number.
func (h *Hostnames) For(clientID string) string {
	base := label(clientID, "node", maxLabel-6)
	name := base
	for n := max(2, h.next[base]); h.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
		h.next[base] = n + 1
	}
	h.Take(name)
	return name
}

// reservedLogins exist on the usual images, as an account or a group, or mean
// something to them.
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

// maxLogin is the longest login that Linux takes.
const maxLogin = 32

var plainLogin = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// LoginName derives a login from the name of a user's URN: the name itself, in
// lower case and at most 32 characters of it, where that can be a login; else its
// letters and digits, joined by hyphens. A name for which taken answers true, or
// that a system reserves, gets a number.
func LoginName(user urn.URN, taken func(string) bool) string {
	base := strings.ToLower(user.Name)
	if !plainLogin.MatchString(base) {
		base = label(user.Name, "user", 28)
	}
	if base[0] >= '0' && base[0] <= '9' {
		base = "u" + base
	}
	base = base[:min(len(base), maxLogin)]
	for n, name := 1, base; ; n++ {
		if !slices.Contains(reservedLogins, name) && !taken(name) {
			return name
		}
		number := strconv.Itoa(n + 1)
		name = base[:min(len(base), maxLogin-len(number))] + number
	}
}

// label keeps lower-case letters, digits and single inner hyphens of s, at most
// limit of them; other is the answer where nothing is left.
func label(s, other string, limit int) string {
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
		return other
	}
	return b.String()
}
