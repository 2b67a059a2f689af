package image

import "strings"

// rule selects the files that the skeleton copies from a path of the host. Under every rule, a
// file or folder must belong to root, be readable for every user, and be writable only for
// root. A symbolic link is copied only if its target is the same in a node.
type rule int

const (
	// shipped copies configuration files that still have the content of their Debian package,
	// according to the hashes in dpkg's list of packages.
	shipped rule = iota
	// public copies single files, not folders. Their data is not confidential.
	public
	// links copies symbolic links only.
	links
	// all copies all files of folders that only dpkg writes.
	all
)

// allowed lists everything that the skeleton copies from the host. A path that ends in * matches
// all paths that begin with the text before the *. All other files of a node are generated or
// missing.
var allowed = [...]struct {
	path string
	rule rule
}{
	{"etc/adduser.conf", shipped},
	{"etc/alternatives", links},
	{"etc/apt/apt.conf.d/01autoremove", shipped},
	{"etc/apt/apt.conf.d/70debconf", shipped},
	{"etc/apt/trusted.gpg.d", shipped},
	{"etc/bash.bashrc", shipped},
	{"etc/bash_completion.d", shipped},
	{"etc/bindresvport.blacklist", shipped},
	{"etc/ca-certificates", shipped},
	{"etc/ca-certificates.conf", public},
	{"etc/debconf.conf", shipped},
	{"etc/debian_version", shipped},
	{"etc/default/useradd", shipped},
	{"etc/deluser.conf", shipped},
	{"etc/dpkg", shipped},
	{"etc/ethertypes", public},
	{"etc/fonts", shipped},
	{"etc/fonts/conf.d", links},
	{"etc/gai.conf", shipped},
	{"etc/gdb", shipped},
	{"etc/groff", shipped},
	{"etc/host.conf", shipped},
	{"etc/inputrc", shipped},
	{"etc/iproute2", shipped},
	{"etc/issue", shipped},
	{"etc/issue.net", shipped},
	{"etc/java-*", shipped},
	{"etc/jetty9", shipped},
	{"etc/ld.so.conf", shipped},
	{"etc/ld.so.conf.d", shipped},
	{"etc/libaudit.conf", shipped},
	{"etc/locale.alias", shipped},
	{"etc/localtime", links},
	{"etc/login.defs", shipped},
	{"etc/magic", shipped},
	{"etc/magic.mime", shipped},
	{"etc/manpath.config", shipped},
	{"etc/mime.types", shipped},
	{"etc/mke2fs.conf", shipped},
	{"etc/netconfig", shipped},
	{"etc/os-release", links},
	{"etc/pam.conf", shipped},
	{"etc/pam.d", shipped},
	{"etc/perl", shipped},
	{"etc/profile.d", shipped},
	{"etc/protocols", public},
	{"etc/python*", shipped},
	{"etc/rmt", links},
	{"etc/rpc", public},
	{"etc/security", shipped},
	{"etc/services", public},
	{"etc/skel", shipped},
	{"etc/ssh/ssh_config", shipped},
	{"etc/ssh/ssh_config.d", shipped},
	{"etc/ssl/certs", links},
	{"etc/ssl/openssl.cnf", shipped},
	{"etc/sudo.conf", shipped},
	{"etc/terminfo", shipped},
	{"etc/timezone", public},
	{"etc/ucf.conf", shipped},
	{"etc/vim", shipped},
	{"etc/wgetrc", shipped},
	{"etc/xattr.conf", shipped},
	{"var/lib/apt/extended_states", public},
	{"var/lib/dpkg/alternatives", all},
	{"var/lib/dpkg/arch", public},
	{"var/lib/dpkg/arch-native", public},
	{"var/lib/dpkg/diversions", public},
	{"var/lib/dpkg/info", all},
	{"var/lib/dpkg/status", public},
	{"var/lib/dpkg/triggers", all},
}

// Most of dpkg's info folder is not needed to install packages: symbols files are only for
// building packages, and md5sums files must exist but may be empty.

func isUnneeded(path string) bool { return isDpkgInfo(path, ".symbols") }

func isEmptied(path string) bool { return isDpkgInfo(path, ".md5sums") }

func isDpkgInfo(path, end string) bool {
	return strings.HasPrefix(path, "var/lib/dpkg/info/") && strings.HasSuffix(path, end)
}

// isSameInNode reports whether the file at path is the same in a node as on the host. path
// is clean and relative to the root.
func isSameInNode(path string) bool {
	top, rest, _ := strings.Cut(path, "/")
	switch top {
	case "usr":
		return rest != "local" && !strings.HasPrefix(rest, "local/")
	case "bin", "sbin", "lib", "lib32", "lib64", "libx32", "dev", "proc":
		return true
	case "etc":
		return strings.HasPrefix(rest, "alternatives/") || strings.HasPrefix(rest, "ssl/certs/")
	}
	return false
}

type emptyFolder struct {
	path  string
	mode  uint32
	group string // the group is root if this is empty or the host does not have it
}

var emptyFolders = [...]emptyFolder{
	{"boot", 0o755, ""},
	{"dev", 0o755, ""},
	{"etc/apt/auth.conf.d", 0o755, ""},
	{"etc/apt/keyrings", 0o755, ""},
	{"etc/apt/preferences.d", 0o755, ""},
	{"etc/apt/sources.list.d", 0o755, ""},
	{"etc/cron.d", 0o755, ""},
	{"etc/cron.daily", 0o755, ""},
	{"etc/default", 0o755, ""},
	{"etc/init.d", 0o755, ""},
	{"etc/logrotate.d", 0o755, ""},
	{"etc/opt", 0o755, ""},
	{"etc/pam.d", 0o755, ""},
	{"etc/profile.d", 0o755, ""},
	{"etc/rc0.d", 0o755, ""},
	{"etc/rc1.d", 0o755, ""},
	{"etc/rc2.d", 0o755, ""},
	{"etc/rc3.d", 0o755, ""},
	{"etc/rc4.d", 0o755, ""},
	{"etc/rc5.d", 0o755, ""},
	{"etc/rc6.d", 0o755, ""},
	{"etc/rcS.d", 0o755, ""},
	{"etc/ssh", 0o755, ""},
	{"etc/ssl/private", 0o710, "ssl-cert"},
	{"etc/sysctl.d", 0o755, ""},
	{"home", 0o755, ""},
	{"media", 0o755, ""},
	{"mnt", 0o755, ""},
	{"opt", 0o755, ""},
	{"proc", 0o555, ""},
	{"root", 0o700, ""},
	{"run", 0o755, ""},
	{"srv", 0o755, ""},
	{"sys", 0o555, ""},
	{"tmp", 0o1777, ""},
	{"usr", 0o755, ""},
	{"var/backups", 0o755, ""},
	{"var/cache/apt/archives/partial", 0o755, ""},
	{"var/cache/debconf", 0o755, ""},
	{"var/cache/ldconfig", 0o700, ""},
	{"var/lib/apt/lists/partial", 0o755, ""},
	{"var/lib/apt/mirrors/partial", 0o755, ""},
	{"var/lib/apt/periodic", 0o755, ""},
	{"var/lib/dpkg/parts", 0o755, ""},
	{"var/lib/dpkg/updates", 0o755, ""},
	{"var/lib/misc", 0o755, ""},
	{"var/lib/pam", 0o755, ""},
	{"var/lib/ucf", 0o755, ""},
	{"var/local", 0o2775, "staff"},
	{"var/log/apt", 0o755, ""},
	{"var/mail", 0o2775, "mail"},
	{"var/opt", 0o755, ""},
	{"var/spool", 0o755, ""},
	{"var/tmp", 0o1777, ""},
}
