package am

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/rspec/hostname"
)

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
		base = hostname.Label(user.Name, "user", 28)
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
