package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// writeAccounts writes the system accounts and groups of the host, without passwords, and keeps their ids in s.
func (s *skeleton) writeAccounts() error {
	passwd, users := systemAccounts(s.text("etc/passwd"), s.exists)
	group, groups := systemGroups(s.text("etc/group"))
	for _, u := range users {
		s.users[u.name] = u.id
	}
	for _, g := range groups {
		s.groups[g.name] = g.id
	}
	if id, ok := s.users["root"]; !ok || id != 0 {
		return errors.New("/etc/passwd of this host has no account root with the id 0, or it is not a file of root that every user can read and only root can write")
	}
	for _, f := range [...]struct {
		path, text string
		mode       fs.FileMode
	}{
		{"etc/passwd", passwd, 0o644},
		{"etc/group", group, 0o644},
		{"etc/shadow", shadow(users), 0o640},
		{"etc/gshadow", gshadow(groups), 0o640},
		{"etc/subuid", "", 0o644},
		{"etc/subgid", "", 0o644},
	} {
		if err := s.writeFile(f.path, f.text, f.mode); err != nil {
			return err
		}
		// Programs that check passwords run with the group shadow.
		if gid, ok := s.groups["shadow"]; ok && f.mode == 0o640 {
			if err := os.Chown(filepath.Join(s.to, f.path), 0, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFiles writes the files that are not copied from the host.
func (s *skeleton) writeFiles() error {
	files := []struct {
		path, text string
		mode       fs.FileMode
	}{
		{"etc/default/locale", locale, 0o644},
		{"etc/environment", environment, 0o644},
		{"etc/fstab", fstab, 0o644},
		{"etc/hosts", hosts, 0o644},
		{"etc/motd", "", 0o644},
		{"etc/networks", networks, 0o644},
		{"etc/nsswitch.conf", nsswitch, 0o644},
		{"etc/pam.d/common-account", pamAccount, 0o644},
		{"etc/pam.d/common-auth", pamAuth, 0o644},
		{"etc/pam.d/common-password", pamPassword, 0o644},
		{"etc/pam.d/common-session", pamSession, 0o644},
		{"etc/pam.d/common-session-noninteractive", pamSession, 0o644},
		{"etc/pam.d/other", pamAuth + pamAccount + pamPassword + pamSession, 0o644},
		{"etc/profile", s.hostTextOr("usr/share/base-files/profile", profile), 0o644},
		{"etc/resolv.conf", resolvConf, 0o644},
		{"etc/shells", s.shells(), 0o644},
		{"root/.bashrc", s.text("usr/share/base-files/dot.bashrc"), 0o644},
		{"root/.profile", s.text("usr/share/base-files/dot.profile"), 0o644},
		{"var/log/btmp", "", 0o660},
		{"var/log/lastlog", "", 0o664},
		{"var/log/wtmp", "", 0o664},
	}
	if s.exists("/usr/bin/sudo") {
		files = append(files, []struct {
			path, text string
			mode       fs.FileMode
		}{
			{"etc/pam.d/sudo", pamSudo, 0o644},
			{"etc/sudoers", sudoers, 0o440},
		}...)
		for path, mode := range map[string]uint32{"etc/sudoers.d": 0o750, "var/lib/sudo": 0o711} {
			if err := s.makeFolder(path); err != nil {
				return err
			}
			if err := unix.Chmod(filepath.Join(s.to, path), mode); err != nil {
				return err
			}
		}
	}
	if cache := s.text("etc/ld.so.cache"); namesOnlySystemPaths(cache) {
		if err := s.writeFile("etc/ld.so.cache", cache, 0o644); err != nil {
			return err
		}
	}
	if release := osRelease(s.text("usr/lib/os-release")); release["ID"] == "debian" && isSystemName(release["VERSION_CODENAME"]) {
		text := fmt.Sprintf(aptSources, release["VERSION_CODENAME"])
		if err := s.writeFile("etc/apt/sources.list.d/debian.sources", text, 0o644); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := s.writeFile(f.path, f.text, f.mode); err != nil {
			return err
		}
		if gid, ok := s.groups["utmp"]; ok && f.mode&0o020 != 0 {
			if err := os.Chown(filepath.Join(s.to, f.path), 0, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostTextOr returns fallback if the host's file is missing, empty or not public.
func (s *skeleton) hostTextOr(path, fallback string) string {
	if text := s.text(path); text != "" {
		return text
	}
	return fallback
}

func (s *skeleton) shells() string {
	var b strings.Builder
	for _, sh := range shells {
		if s.exists(sh) {
			b.WriteString(sh + "\n")
		}
	}
	return b.String()
}

// namesOnlySystemPaths reports whether a library cache lists only paths that nodes have. A
// node without a cache works, too: its programs start a little slower.
func namesOnlySystemPaths(cache string) bool {
	for text := range strings.SplitSeq(cache, "\x00") {
		if !strings.HasPrefix(text, "/") {
			continue
		}
		if _, rest, ok := strings.Cut(text[1:], "/"); !ok || !isSameInNode(text[1:]) || strings.Contains(rest, "..") {
			return false
		}
	}
	return cache != ""
}

func osRelease(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[k] = strings.Trim(v, `"'`)
		}
	}
	return values
}

// certificates writes the authorities of Debian's package that the host trusts. It leaves
// out authorities that the operator added: they could impersonate any server, and their
// names reveal the site's network.
func (s *skeleton) certificates() error {
	const dir = "etc/ssl/certs"
	var b strings.Builder
	for _, e := range s.entries(dir) {
		path := dir + "/" + e.Name()
		if _, to, ok := s.readLink(path); ok && strings.HasSuffix(path, ".pem") && strings.HasPrefix(to, "usr/share/ca-certificates/") {
			text := s.text(to)
			b.WriteString(text)
			if text != "" && !strings.HasSuffix(text, "\n") {
				b.WriteByte('\n')
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return s.writeFile(dir+"/ca-certificates.crt", b.String(), 0o644)
}

// writeDpkgFiles writes the files that dpkg needs besides its status. It leaves out overrides with users or
// groups that the node lacks, because dpkg fails if it finds such an override.
func (s *skeleton) writeDpkgFiles() error {
	if !s.exists("/var/lib/dpkg/status") {
		return nil
	}
	var b strings.Builder
	for line := range strings.Lines(s.text("var/lib/dpkg/statoverride")) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		_, user := s.users[f[0]]
		_, group := s.groups[f[1]]
		if (user || strings.HasPrefix(f[0], "#")) && (group || strings.HasPrefix(f[1], "#")) {
			b.WriteString(line)
		}
	}
	return errors.Join(
		s.writeFile("var/lib/dpkg/statoverride", b.String(), 0o644),
		s.writeFile("var/lib/dpkg/diversions", "", 0o644),
		s.writeFile("var/lib/dpkg/available", "", 0o644),
	)
}
