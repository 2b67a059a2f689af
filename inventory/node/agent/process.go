package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

// Command describes a program to start in a node.
type Command struct {
	// User is an account in the node's /etc/passwd.
	User string
	// Line is a command for the account's shell; "" starts a login shell.
	Line string
	// SFTP starts the testbed's SFTP server instead of Line.
	SFTP bool
	// Argv starts a program without a shell instead of Line.
	Argv []string
	// Self starts this executable with these arguments instead of Line, so that nothing
	// depends on the node's files. The first argument selects the program in this
	// executable.
	Self []string `json:",omitempty"`
	// Env are variables, as NAME=value, that are added to the account's environment.
	Env []string
	// Terminal describes the command's pseudo-terminal; nil for a command with three
	// files.
	Terminal *Terminal
}

// Terminal describes a pseudo-terminal.
type Terminal struct {
	Name       string // TERM
	Rows, Cols uint16
	// Modes are the modes of the client's terminal, encoded as in RFC 4254, section 8.
	Modes []byte `json:",omitempty"`
}

// Exit is the result of a command.
type Exit struct {
	Status int
	// Signal is the signal that ended the command, or 0.
	Signal int
}

// Process is a started command.
type Process struct {
	// Terminal is the master of the command's pseudo-terminal; nil without one.
	Terminal *os.File

	c *fdsocket.Conn
}

// Exec starts a command. stdio are its three files; nil for a command with a terminal.
// The caller must close them. They are passed in blocking mode, which programs expect.
// The end of ctx cancels only the start, not the running command.
func Exec(ctx context.Context, c *fdsocket.Conn, cmd Command, stdio []*os.File) (*Process, error) {
	p, err := start(ctx, c, cmd, stdio)
	if err != nil {
		c.Close()
		return nil, err
	}
	return p, nil
}

// start sends the operation exec to the agent at c, and checks the terminal that the agent returns.
func start(ctx context.Context, c *fdsocket.Conn, cmd Command, stdio []*os.File) (*Process, error) {
	want := 0
	switch {
	case cmd.Terminal != nil && len(stdio) != 0:
		return nil, errors.New("a command with a terminal takes no files")
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
		return nil, errors.New("the node's agent sent no terminal")
	}
	p := &Process{c: c}
	if want == 1 {
		if p.Terminal, err = verifiedFile(got[0], checkTerminal); err != nil {
			return nil, fmt.Errorf("the node's agent sent a wrong terminal: %w", err)
		}
	}
	return p, nil
}

func checkTerminal(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.New("it is not a character device")
	}
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(number int) error {
	return p.c.Send(request{Op: opSignal, Signal: number})
}

// Wait waits for the end of the command. It must be called at most once.
func (p *Process) Wait() (Exit, error) {
	a, _, err := receive(p.c, 0)
	if err == nil && a.Exit == nil {
		err = errors.New("the answer has no exit status")
	}
	if err != nil {
		return Exit{}, fmt.Errorf("the node's agent did not report the end of the command: %w", err)
	}
	return *a.Exit, nil
}

// Close releases the process; a command with a terminal gets SIGHUP.
func (p *Process) Close() error {
	err := p.c.Close()
	if p.Terminal != nil {
		err = errors.Join(err, p.Terminal.Close())
	}
	return err
}
