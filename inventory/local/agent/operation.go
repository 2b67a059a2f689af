package agent

import (
	"context"
	"errors"
	"net"
	"os"

	"patchbay/inventory/local/wire"
)

// Argv0 is the name under which the program runs as PID 1 of a node.
const Argv0 = "patchbay-agent"

// GeniSocket is where geni-get asks, inside the node.
const GeniSocket = "/run/patchbay/geni"

// Identity is what an agent says of itself.
type Identity struct {
	Node string // the node's id, as it was told when it was started
}

// Command is what to start in a node.
type Command struct {
	// User is an account of the node's own /etc/passwd.
	User string
	// Line goes to the account's shell with -c; empty: a login shell.
	Line string
	// SFTP starts our own SFTP server instead.
	SFTP bool
	// Argv starts a program without a shell, instead of all that.
	Argv []string
	// Env is added to the account's environment: NAME=value.
	Env []string
	// Terminal is the pseudo-terminal it gets; nil: three files.
	Terminal *Terminal
}

// Terminal is a pseudo-terminal.
type Terminal struct {
	Name       string // TERM
	Rows, Cols uint16
}

// Exit is how a command ended.
type Exit struct {
	Status int
	// Signal is its number when a signal ended it, else 0.
	Signal int
}

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
	// Accounts are made, with rights of root where the image has sudo. Those of
	// an earlier Configuration that are not listed lose their account and their
	// processes, but not their files.
	Accounts []Account
	// Key is the experiment's private key (PEM) and PublicKey its line: each
	// account gets both as ~/.ssh/id_rsa unless it has such a file.
	Key, PublicKey string
	// Hosts are lines for /etc/hosts, KnownHosts for /etc/ssh/ssh_known_hosts.
	Hosts, KnownHosts []string
}

// Facts are what the agent found when it configured the node.
type Facts struct {
	Sudo bool // the image has sudo
	// Problems are what could not be done in the homes of accounts, in words:
	// a user who breaks its own home must not break the node.
	Problems []string
}

var errNotBuilt = errors.New("not built yet")

// Each of the following is one operation: it uses the connection up and closes
// it, Exec when its Process is closed.

// Hello asks who the agent is.
func Hello(ctx context.Context, c *wire.Conn) (Identity, error) { return Identity{}, errNotBuilt }

// Hold waits until the agent is gone (nil) or ctx is done.
func Hold(ctx context.Context, c *wire.Conn) error { return errNotBuilt }

// Configure makes the node as cfg says.
func Configure(ctx context.Context, c *wire.Conn, cfg Configuration) (Facts, error) {
	return Facts{}, errNotBuilt
}

// Halt asks all processes of the node to end, and waits up to two seconds.
func Halt(ctx context.Context, c *wire.Conn) error { return errNotBuilt }

// Dial connects from inside the node; network is tcp or unix. At a Unix socket
// it has the rights of the account user, so that nobody gets further than by
// logging in.
func Dial(ctx context.Context, c *wire.Conn, network, address, user string) (net.Conn, error) {
	return nil, errNotBuilt
}

// Listen listens inside the node; network is tcp or unix. A Unix socket belongs
// to the account owner and is made in place of what is there.
func Listen(ctx context.Context, c *wire.Conn, network, address, owner string) (net.Listener, error) {
	return nil, errNotBuilt
}

// Process is a command that was started.
type Process struct {
	// Terminal is the master of its pseudo-terminal, nil if it has none.
	Terminal *os.File
}

// Exec starts a command; stdio are its three files, nil for one with a terminal.
func Exec(ctx context.Context, c *wire.Conn, cmd Command, stdio []*os.File) (*Process, error) {
	return nil, errNotBuilt
}

// Signal sends a signal to the process group.
func (p *Process) Signal(number int) error { return errNotBuilt }

// Wait waits for the end.
func (p *Process) Wait() (Exit, error) { return Exit{}, errNotBuilt }

// Close lets go of the process; one with a terminal is hung up.
func (p *Process) Close() error { return errNotBuilt }

// Main is PID 1: it serves operations at the inherited listening socket and
// never returns while it can. It is run by the package node's last stage.
func Main() { os.Exit(1) }

// ServeSFTP is the SFTP server that Command.SFTP starts in the node: standard
// input and output.
func ServeSFTP() error { return errNotBuilt }
