package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local"
)

// exitStatus is an error that sets the exit status, without a message.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func enterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "enter SETTINGS NODE [--] [COMMAND]",
		Short: "Run a shell, or a command, as root in a node",
		Long: `Run a shell, or a command, as root in a node. NODE is its client_id or
hostname, such as server or server.SLICE, or the beginning of its id, if unique.

The node's own PID 1 starts the command, so it is confined like all processes
there. Only the bytes of this terminal reach the node. As with ssh, the session
ends when no process holds its output open. To leave a command in the
background, type 'COMMAND >/dev/null 2>&1 &'.`,
		Args: argumentCount(2, -1, "SETTINGS", "NODE"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 2 && args[2] == "--" {
				args = slices.Delete(args, 2, 3)
			}
			ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
			defer cancel()
			a, err := askTestbed(ctx, args[0], local.Request{Action: local.ActionAgent, Name: args[1]})
			if err != nil {
				return err
			}
			if len(a.Files) != 1 {
				return errors.New("the testbed gave no connection to the node")
			}
			conn, err := fdsocket.FromFile(a.Files[0])
			if err != nil {
				return err
			}
			defer conn.Close()
			cmd := agent.Command{User: "root", Line: strings.Join(args[2:], " ")}
			if size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil && len(args) == 2 {
				cmd.Terminal = &agent.Terminal{Name: os.Getenv("TERM"), Rows: size.Row, Cols: size.Col}
				return inTerminal(ctx, conn, cmd)
			}
			return withPipes(ctx, conn, cmd)
		},
	}
	c.Flags().SetInterspersed(false)
	return c
}

// inTerminal runs cmd at a terminal of the node, and connects it with this process's terminal.
func inTerminal(ctx context.Context, conn *fdsocket.Conn, cmd agent.Command) error {
	p, err := agent.Exec(ctx, conn, cmd, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	restore, err := rawTerminal()
	if err != nil {
		return err
	}
	defer restore()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	go func() {
		for range resized {
			if size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
				setSize(p.Terminal, size)
			}
		}
	}()
	go io.Copy(p.Terminal, os.Stdin)
	io.Copy(os.Stdout, p.Terminal) // fails when the last process has closed the terminal
	return waitExit(p)
}

func setSize(f *os.File, size *unix.Winsize) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
}

// rawTerminal makes the terminal pass on each byte unchanged, and returns the function that restores it.
func rawTerminal() (restore func(), err error) {
	before, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(0, unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(0, unix.TCSETS, before) }, nil
}

// withPipes runs cmd with pipes, so that no files of the host are open in the node.
func withPipes(ctx context.Context, conn *fdsocket.Conn, cmd agent.Command) error {
	var theirs, ours []*os.File
	defer func() {
		for _, f := range append(theirs, ours...) {
			f.Close()
		}
	}()
	for i := range 3 {
		// os.Pipe makes non-blocking pipes, but programs expect blocking ones.
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("cannot create a pipe: %w", err)
		}
		r, w := os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "pipe")
		if i == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	p, err := agent.Exec(ctx, conn, cmd, theirs)
	if err != nil {
		return err
	}
	defer p.Close()
	for _, f := range theirs {
		f.Close()
	}
	go func() {
		io.Copy(ours[0], os.Stdin)
		ours[0].Close()
	}()
	var copies sync.WaitGroup
	copies.Go(func() { io.Copy(os.Stdout, ours[1]) })
	copies.Go(func() { io.Copy(os.Stderr, ours[2]) })
	copies.Wait()
	return waitExit(p)
}

// waitExit returns an exitStatus unless p succeeded. A signal counts as 128 plus its number.
func waitExit(p *agent.Process) error {
	exit, err := p.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("the connection to the node was lost: %w", err)
	case exit.Signal != 0:
		return exitStatus(128 + exit.Signal)
	case exit.Status != 0:
		return exitStatus(exit.Status)
	}
	return nil
}
