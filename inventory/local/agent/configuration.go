package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"patchbay/inventory/local/fdsocket"
)

// Account is a login of the node.
type Account struct {
	Login string
	// Keys are lines as in authorized_keys.
	Keys []string
}

// Configuration is what a node is told of its experiment. Each Configure holds
// everything; what was configured before and is not in it any more goes.
type Configuration struct {
	Hostname string
	// Accounts are made, with the rights of root by sudo, and root gets all their
	// keys. Those of an earlier Configuration that are not listed lose their account
	// and their processes, but not their files, and get their old user id when they come
	// back. The account root may be listed, for its keys; other accounts of the
	// system may not.
	Accounts []Account
	// Key is the experiment's private key (PEM) and PublicKey its line: each
	// account gets both as ~/.ssh/id_rsa unless it has such a file.
	Key, PublicKey string
	// Hosts are lines for /etc/hosts, KnownHosts for /etc/ssh/ssh_known_hosts.
	Hosts, KnownHosts []string
	// Motd are lines for /etc/motd, which a login at a terminal shows.
	Motd []string
	// NameServer is the address of the one to ask; empty: what the image says.
	NameServer string
}

// Facts are what the agent found when it configured the node.
type Facts struct {
	// Problems are what could not be done in the homes of accounts, in words:
	// a user who breaks its own home must not break the node. At most 100.
	Problems []string
}

// Limits of a configuration.
const (
	maxAccounts = 1000
	maxKeys     = 1000 // of one account
	maxLines    = 20000
	lineLimit   = 16 << 10 // bytes of a key or a line
	maxProblems = 100
)

// Configure makes the node as cfg says. Again with the same it changes nothing.
func Configure(ctx context.Context, c *fdsocket.Conn, cfg Configuration) (Facts, error) {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opConfigure, Configuration: &cfg}, nil, 0)
	switch {
	case err != nil:
		return Facts{}, err
	case a.Facts == nil:
		return Facts{}, errors.New("the node's agent does not say what it configured")
	}
	facts := *a.Facts
	facts.Problems = facts.Problems[:min(len(facts.Problems), maxProblems)]
	for i, p := range facts.Problems {
		facts.Problems[i] = printable(p)
	}
	return facts, nil
}

// validate refuses what would not mean the same in the node's files.
func (cfg *Configuration) validate() error {
	if !IsHostname(cfg.Hostname) {
		return fmt.Errorf("%q is no host name", printable(cfg.Hostname))
	}
	if len(cfg.Accounts) > maxAccounts {
		return fmt.Errorf("%d accounts, at most %d", len(cfg.Accounts), maxAccounts)
	}
	seen := make(map[string]bool)
	for _, a := range cfg.Accounts {
		switch {
		case !isLogin(a.Login):
			return fmt.Errorf("%q is no login: a small letter or _, then at most 31 of a-z 0-9 _ -", printable(a.Login))
		case seen[a.Login]:
			return fmt.Errorf("the login %s is listed twice", a.Login)
		case len(a.Keys) > maxKeys:
			return fmt.Errorf("%s has %d keys, at most %d", a.Login, len(a.Keys), maxKeys)
		}
		seen[a.Login] = true
		if err := checkLines("a key of "+a.Login, a.Keys); err != nil {
			return err
		}
	}
	return errors.Join(
		checkLines("the public key", []string{cfg.PublicKey}),
		checkLines("a line for /etc/hosts", cfg.Hosts),
		checkLines("a known host", cfg.KnownHosts),
		checkLines("a line for "+motdFile, cfg.Motd),
		checkNameServer(cfg.NameServer),
	)
}

func checkNameServer(address string) error {
	if address == "" {
		return nil
	}
	if _, err := netip.ParseAddr(address); err != nil {
		return fmt.Errorf("%q is no address of a name server", printable(address))
	}
	return nil
}

func checkLines(what string, lines []string) error {
	if len(lines) > maxLines {
		return fmt.Errorf("%s: %d lines, at most %d", what, len(lines), maxLines)
	}
	for _, line := range lines {
		if len(line) > lineLimit || !isLine(line) || isMark(line) {
			return fmt.Errorf("%s is no single line of text of at most %d bytes: %q", what, lineLimit, printable(line))
		}
	}
	return nil
}

func isLine(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// isLogin tells whether s may stand in passwd, paths and sudoers.
func isLogin(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c == '_':
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// IsHostname tells whether s can be the name of a Linux host and stand in /etc/hosts.
func IsHostname(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return len(s) <= 64 && s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"-.") == "" && !strings.Contains(s, "..")
}
