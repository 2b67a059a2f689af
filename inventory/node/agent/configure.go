package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	hostnameFile   = "/etc/hostname"
	hostsFile      = "/etc/hosts"
	knownHostsFile = "/etc/ssh/ssh_known_hosts"
	resolvFile     = "/etc/resolv.conf"
	motdFile       = "/etc/motd"
)

// configure applies cfg to the node: names, accounts, sudo and keys. It returns facts about the accounts, and
// problems: errors in homes, and others that leave the node usable. Processes of removed accounts are ended
// before the accounts are recorded as removed, so a repeated call completes an interrupted one.
func (a *agent) configure(cfg *Configuration) (*Facts, error) {
	if cfg == nil {
		return nil, errors.New("the operation configure needs a configuration")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a.configuring.Lock()
	defer a.configuring.Unlock()
	facts := Facts{UserIDs: map[string]uint32{}}
	if err := setHostname(cfg.Hostname); err != nil {
		facts.problem("the host name", err)
	}
	if err := setLines(hostsFile, cfg.Hosts); err != nil {
		return nil, err
	}
	if err := setLines(knownHostsFile, cfg.KnownHosts); err != nil {
		return nil, err
	}
	if err := setLines(motdFile, cfg.Motd); err != nil {
		facts.problem(motdFile, err) // the image may have a folder there
	}
	if err := setNameServer(cfg.NameServer); err != nil {
		facts.problem(resolvFile, err) // the image may have a folder there
	}
	accounts, removed, err := setAccounts(cfg.Accounts, &facts)
	if err != nil {
		return nil, err
	}
	if err := setSudo(accounts); err != nil {
		return nil, err
	}
	for _, former := range removed {
		if err := a.killUser(former.uid); err != nil {
			return nil, fmt.Errorf("cannot end the processes of %s: %w", former.login, err)
		}
	}
	if err := markRemoved(removed); err != nil {
		return nil, err
	}
	keys := keyPair{private: []byte(cfg.Key), public: []byte(cfg.PublicKey + "\n")}
	if keys.given, err = recordKey(keys.private); err != nil {
		return nil, err
	}
	for _, wanted := range withRoot(accounts) {
		if err := setHome(wanted, keys); err != nil {
			facts.problem("the home of "+wanted.Login, err)
		}
	}
	return &facts, nil
}

// withRoot puts root at the end, with the keys of all accounts.
func withRoot(accounts []Account) []Account {
	all := Account{Login: root.name}
	var others []Account
	for _, a := range accounts {
		all.Keys = append(all.Keys, a.Keys...)
		if a.Login != root.name {
			others = append(others, a)
		}
	}
	return append(others, all)
}

func (f *Facts) problem(where string, err error) {
	if len(f.Problems) < maxProblems {
		f.Problems = append(f.Problems, printable(where+": "+err.Error()))
	}
}

// setHostname sets the host name of the node. It first writes the file of the name: if the kernel refuses
// to set the name, the next start of the node uses it.
func setHostname(name string) error {
	old, err := readIfExists(hostnameFile)
	if err != nil {
		return err
	}
	if err := updateFile(hostnameFile, old, []byte(name+"\n"), 0o644); err != nil {
		return err
	}
	if now, err := os.Hostname(); err == nil && now == name {
		return nil
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("%w; it is set at the next start of the node", err)
	}
	return nil
}

// setLines replaces the testbed's block in a file that root owns.
func setLines(path string, lines []string) error {
	old, err := readIfExists(path)
	if err != nil {
		return err
	}
	text := setBlock(old, lines)
	if len(text) > 0 {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	return updateFile(path, old, text, 0o644)
}

// setNameServer makes address the first name server in resolv.conf. An empty address
// only removes the testbed's block.
func setNameServer(address string) error {
	old, err := readIfExists(resolvFile)
	if err != nil {
		return err
	}
	text := setBlock(old, nil)
	if address != "" {
		text = append(setBlock(nil, []string{"nameserver " + address}), text...)
	}
	return updateFile(resolvFile, old, text, 0o644)
}

const (
	sudoersFolder = "/etc/sudoers.d"
	sudoersFile   = sudoersFolder + "/90-patchbay"
	sudoersHeader = "# Kept by the testbed: the accounts of the experiment.\n"
)

// setSudo configures the image's own sudo, if it has one. The testbed's sudo needs no
// configuration.
func setSudo(accounts []Account) error {
	if !HasSudo() {
		return nil
	}
	text := []byte(sudoersHeader)
	for _, a := range accounts {
		if a.Login != root.name {
			text = append(text, a.Login+" ALL=(ALL:ALL) NOPASSWD: ALL\n"...)
		}
	}
	old, err := readIfExists(sudoersFile)
	if err != nil {
		return err
	}
	return updateFile(sudoersFile, old, text, 0o440)
}

// HasSudo reports whether the node's image has a setuid sudo that reads sudoersFile.
func HasSudo() bool {
	// A node can execute sudo only if it can read the file, so this opens the file. That
	// fails for Fedora's sudo, whose mode is 4111.
	program, err := os.Open("/usr/bin/sudo")
	if err != nil {
		return false
	}
	defer program.Close()
	if stat, err := program.Stat(); err != nil || stat.Mode()&os.ModeSetuid == 0 {
		return false
	}
	if stat, err := os.Stat(sudoersFolder); err != nil || !stat.IsDir() {
		return false
	}
	text, err := readFile("/etc/sudoers", fileLimit)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) == 2 && (f[0] == "@includedir" || f[0] == "#includedir") && filepath.Clean(f[1]) == sudoersFolder {
			return true
		}
	}
	return false
}
