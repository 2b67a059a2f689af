package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"patchbay/inventory/provider/fdsocket"
	"patchbay/rspec/hostname"
)

// Account is a login of the node.
type Account struct {
	Login string
	// Keys are lines as in authorized_keys.
	Keys []string
}

// Configuration holds all settings of a node that the agent applies. It replaces the
// previous Configuration completely.
type Configuration struct {
	Hostname string
	// Accounts are added to the node. They get the rights of root through sudo, and root
	// gets all their keys. An account of the previous Configuration that is not listed
	// any more is removed, and its processes are killed. Its files stay. If it is listed
	// again later, it gets the same user id. The only system account that may be listed
	// is root, for its keys.
	Accounts []Account
	// Key is the experiment's private key (PEM), and PublicKey its public line. Each
	// account gets both as ~/.ssh/id_rsa. They replace a key of an earlier Configuration, but
	// no other file.
	Key, PublicKey string
	// Hosts are lines for /etc/hosts, KnownHosts for /etc/ssh/ssh_known_hosts.
	Hosts, KnownHosts []string
	// Motd are lines for /etc/motd, which logins at a terminal show.
	Motd []string
	// NameServer is the address of the name server; "" means the image's own setting.
	NameServer string
}

// Facts is the agent's report about a configuration.
type Facts struct {
	// Problems describe errors that are not fatal, at most 100. Errors in homes are not
	// fatal, so that a user who breaks a home does not break the node.
	Problems []string
	// UserIDs are the ids in the node of the listed accounts, by login, without root. Other
	// accounts of the node, such as services, may have ids of the same range.
	UserIDs map[string]uint32
}

const (
	maxAccounts = 1000
	maxKeys     = 1000 // of one account
	maxLines    = 20000
	lineLimit   = 16 << 10 // bytes of a key or a line
	maxProblems = 100
)

// Configure applies cfg to the node. A repeated call is harmless.
func Configure(ctx context.Context, c *fdsocket.Conn, cfg Configuration) (Facts, error) {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opConfigure, Configuration: &cfg}, nil, 0)
	switch {
	case err != nil:
		return Facts{}, err
	case a.Facts == nil:
		return Facts{}, errors.New("the node's agent did not report its configuration")
	}
	facts := *a.Facts
	facts.Problems = facts.Problems[:min(len(facts.Problems), maxProblems)]
	for i, p := range facts.Problems {
		facts.Problems[i] = printable(p)
	}
	return facts, nil
}

// Validate refuses values that the node's files cannot represent.
func (cfg *Configuration) Validate() error {
	if !hostname.IsHost(cfg.Hostname) {
		return fmt.Errorf("%q is not a host name", printable(cfg.Hostname))
	}
	if len(cfg.Accounts) > maxAccounts {
		return fmt.Errorf("%d accounts are too many; at most %d are allowed", len(cfg.Accounts), maxAccounts)
	}
	seen := make(map[string]bool)
	for _, a := range cfg.Accounts {
		switch {
		case !isLogin(a.Login):
			return fmt.Errorf("%q is not a login: use a small letter or _, then at most 31 of a-z 0-9 _ -", printable(a.Login))
		case seen[a.Login]:
			return fmt.Errorf("the login %s is listed twice", a.Login)
		case len(a.Keys) > maxKeys:
			return fmt.Errorf("%s has %d keys; at most %d are allowed", a.Login, len(a.Keys), maxKeys)
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
		return fmt.Errorf("%q is not an IP address of a name server", printable(address))
	}
	return nil
}

// checkLines fails if there are too many lines, or if one is too long, contains control
// characters, or equals a mark of setBlock.
func checkLines(kind string, lines []string) error {
	if len(lines) > maxLines {
		return fmt.Errorf("%s: %d lines are too many; at most %d are allowed", kind, len(lines), maxLines)
	}
	for _, line := range lines {
		if len(line) > lineLimit || !isLine(line) || isMark(line) {
			return fmt.Errorf("%s must be a single line of at most %d bytes: %q", kind, lineLimit, printable(line))
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

// isLogin reports whether s can be a login in passwd, paths and sudoers.
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
