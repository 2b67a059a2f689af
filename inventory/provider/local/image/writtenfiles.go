package image

// Generated files. The host's own files could name its networks, user directories, or services
// that nodes lack.
const (
	resolvConf = "# This file names a name server only in nodes with access to outside networks.\n"

	nsswitch = `passwd:    files
group:     files
shadow:    files
gshadow:   files
hosts:     files dns
networks:  files
protocols: files
services:  files
ethers:    files
rpc:       files
`
	hosts = `127.0.0.1 localhost
::1       localhost ip6-localhost ip6-loopback
`
	networks    = "default 0.0.0.0\nloopback 127.0.0.0\nlink-local 169.254.0.0\n"
	fstab       = "# the testbed mounts the file systems of this node; this file is not used\n"
	environment = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	locale      = "LANG=C.UTF-8\n"

	profile = `PATH=/usr/local/bin:/usr/bin:/bin
[ "$(id -u)" -ne 0 ] || PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ -z "$BASH_VERSION" ] || [ -z "$PS1" ] || [ ! -f /etc/bash.bashrc ] || . /etc/bash.bashrc
for i in /etc/profile.d/*.sh; do
	[ ! -r "$i" ] || . "$i"
done
unset i
`
	sudoers = `Defaults env_reset
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
%sudo ALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
`
	// Accounts of a node are only in its own files, even if the host uses a directory service.
	// root may become another user without a password.
	pamAuth = `auth sufficient pam_rootok.so
auth required pam_unix.so
`
	pamAccount  = "account required pam_unix.so\n"
	pamPassword = "password required pam_unix.so yescrypt\n"
	pamSession  = "session required pam_unix.so\n"

	pamSudo = "@include common-auth\n@include common-account\n@include common-session-noninteractive\n"

	aptSources = `Types: deb
URIs: http://deb.debian.org/debian
Suites: %[1]s %[1]s-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.debian.org/debian-security
Suites: %[1]s-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`
)

// shells are listed in a node's /etc/shells if they exist.
var shells = [...]string{
	"/bin/sh", "/usr/bin/sh", "/bin/bash", "/usr/bin/bash", "/bin/rbash", "/usr/bin/rbash", "/bin/dash", "/usr/bin/dash",
	"/bin/zsh", "/usr/bin/zsh", "/bin/ksh", "/usr/bin/ksh", "/usr/bin/fish", "/bin/tcsh", "/usr/bin/tcsh", "/usr/bin/tmux", "/usr/bin/screen",
}
