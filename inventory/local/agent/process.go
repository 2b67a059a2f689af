package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/fdsocket"
)

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
	// Self starts this program again, with these words, whatever else the node has;
	// the first is the name that says what it shall be.
	Self []string `json:",omitempty"`
	// Env is added to the account's environment: NAME=value.
	Env []string
	// Terminal is the pseudo-terminal it gets; nil: three files.
	Terminal *Terminal
}

// Terminal is a pseudo-terminal.
type Terminal struct {
	Name       string // TERM
	Rows, Cols uint16
	// Modes are what the user's own terminal does, encoded as in RFC 4254, 8.
	Modes []byte `json:",omitempty"`
}

// Exit is how a command ended.
type Exit struct {
	Status int
	// Signal is its number when a signal ended it, else 0.
	Signal int
}

// Process is a command that was started.
type Process struct {
	// Terminal is the master of its pseudo-terminal, nil if it has none.
	Terminal *os.File

	c *fdsocket.Conn
}

// Exec starts a command; stdio are its three files, nil for one with a
// terminal. They stay the caller's, and are given as they are: programs expect
// files that block. ctx bounds the start only.
func Exec(ctx context.Context, c *fdsocket.Conn, cmd Command, stdio []*os.File) (*Process, error) {
	p, err := start(ctx, c, cmd, stdio)
	if err != nil {
		c.Close()
		return nil, err
	}
	return p, nil
}

func start(ctx context.Context, c *fdsocket.Conn, cmd Command, stdio []*os.File) (*Process, error) {
	want := 0
	switch {
	case cmd.Terminal != nil && len(stdio) != 0:
		return nil, errors.New("a command with a terminal takes no other files")
	case cmd.Terminal != nil:
		want = 1
	case len(stdio) != 3:
		return nil, fmt.Errorf("a command without a terminal takes 3 files, not %d", len(stdio))
	}
	_, got, err := call(ctx, c, request{Op: opExec, Command: &cmd}, stdio, want)
	if err != nil {
		return nil, err
	}
	if len(got) != want {
		return nil, errors.New("the node's agent gave no terminal")
	}
	p := &Process{c: c}
	if want == 1 {
		if p.Terminal, err = verifiedFile(got[0], checkTerminal); err != nil {
			return nil, fmt.Errorf("the node's agent gave a wrong terminal: %w", err)
		}
	}
	return p, nil
}

// checkTerminal refuses what is not the master of a pseudo-terminal.
func checkTerminal(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.New("it is no character device")
	}
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err
}

// Signal sends a signal to the process group.
func (p *Process) Signal(number int) error {
	return p.c.Send(request{Op: opSignal, Signal: number})
}

// Wait waits for the end. It is called once.
func (p *Process) Wait() (Exit, error) {
	a, _, err := receive(p.c, 0)
	if err == nil && a.Exit == nil {
		err = errors.New("it does not say how")
	}
	if err != nil {
		return Exit{}, fmt.Errorf("the node's agent does not tell the end of the command: %w", err)
	}
	return *a.Exit, nil
}

// Close lets go of the process; one with a terminal is hung up.
func (p *Process) Close() error {
	err := p.c.Close()
	if p.Terminal != nil {
		err = errors.Join(err, p.Terminal.Close())
	}
	return err
}
