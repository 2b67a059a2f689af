package image

import (
	"strconv"
	"strings"
)

// account is a user account or a group of a node.
type account struct {
	name string
	id   int
}

// systemAccounts returns a passwd file with two kinds of accounts of the host's: those with ids below 1000, and
// the account "nobody". The result has no names of people and no home folders that a node lacks.
// Only root has a shell that allows a login. hasShell reports whether a shell exists.
func systemAccounts(passwd string, hasShell func(string) bool) (text string, accounts []account) {
	var b strings.Builder
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 7 || !isSystemName(f[0]) {
			continue
		}
		uid, ok := systemID(f[2])
		gid, known := systemID(f[3])
		if !ok || !known || f[0] != "root" && uid == 0 {
			continue
		}
		home, shell := f[5], f[6]
		switch {
		case f[0] == "root":
			home, shell = "/root", "/bin/sh"
			if hasShell("/bin/bash") {
				shell = "/bin/bash"
			}
		case shell != "/bin/sync" && shell != "/bin/false" && shell != "/usr/bin/false":
			shell = "/usr/sbin/nologin"
		}
		if !isSystemHome(home) {
			home = "/nonexistent"
		}
		accounts = append(accounts, account{f[0], uid})
		b.WriteString(strings.Join([]string{f[0], "x", strconv.Itoa(uid), strconv.Itoa(gid), "", home, shell}, ":") + "\n")
	}
	return b.String(), accounts
}

// systemGroups returns a group file with the system groups of the host's, without members.
func systemGroups(group string) (text string, groups []account) {
	var b strings.Builder
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 4 || !isSystemName(f[0]) {
			continue
		}
		gid, ok := systemID(f[2])
		if !ok {
			continue
		}
		groups = append(groups, account{f[0], gid})
		b.WriteString(f[0] + ":x:" + strconv.Itoa(gid) + ":\n")
	}
	return b.String(), groups
}

// shadow locks all passwords. The day of the last change is fixed, so that equal hosts
// give equal skeletons.
func shadow(accounts []account) string {
	var b strings.Builder
	for _, a := range accounts {
		b.WriteString(a.name + ":*:19000:0:99999:7:::\n")
	}
	return b.String()
}

// gshadow locks all passwords.
func gshadow(groups []account) string {
	var b strings.Builder
	for _, g := range groups {
		b.WriteString(g.name + ":*::\n")
	}
	return b.String()
}

func systemID(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && (n >= 0 && n < 1000 || n == nobody)
}

func isSystemName(s string) bool {
	if s == "" || len(s) > 32 || s[0] >= '0' && s[0] <= '9' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$") == ""
}

func isSystemHome(path string) bool {
	switch path {
	case "/", "/root", "/bin", "/dev", "/nonexistent":
		return true
	}
	for _, dir := range [...]string{"/usr/", "/var/", "/run/"} {
		if strings.HasPrefix(path, dir) && !strings.HasPrefix(path, "/usr/local/") {
			return strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" && !strings.Contains(path, "..")
		}
	}
	return false
}
