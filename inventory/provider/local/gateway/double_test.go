package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/sandbox"
)

// The test binary runs again as the gateway, with fake nodes: the test's process does on
// this host what an agent would do in a node.
func TestMain(m *testing.M) {
	if os.Args[0] == Argv0 {
		signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
		if err := run(os.NewFile(3, "control"), fakeNodes{}, fakeRestrict, stderrLog()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Under nohup, the shells would start with SIGHUP ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// gatewayUser is the user id of the gateway where the tests run as root.
const gatewayUser = 0x7ffdfff0

func fakeRestrict(uid, gid int) error {
	if uid != gatewayUser {
		return nil // without root there are no rights to drop
	}
	return sandbox.Gateway(uid, gid)
}

type ask struct {
	Op                     string
	Command                *agent.Command
	Network, Address, User string
	Signal                 int
}

type told struct {
	Error string
	Exit  *agent.Exit
}

// fakeNodes is the gateway's side of the fake nodes.
type fakeNodes struct{}

func (fakeNodes) call(c *fdsocket.Conn, a ask, files ...*os.File) (*os.File, error) {
	if err := c.Send(a, files...); err != nil {
		return nil, err
	}
	var t told
	got, err := c.Receive(&t, 1<<16, 1)
	if err != nil {
		return nil, err
	}
	if t.Error != "" {
		return nil, errors.New(t.Error)
	}
	if len(got) == 0 {
		return nil, nil
	}
	return got[0], nil
}

func (d fakeNodes) exec(ctx context.Context, c *fdsocket.Conn, cmd agent.Command, stdio []*os.File) (command, error) {
	f, err := d.call(c, ask{Op: "exec", Command: &cmd}, stdio...)
	if err != nil {
		c.Close()
		return nil, err
	}
	if f != nil {
		// As in package agent: its reads can be interrupted.
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f.Close()
		unix.SetNonblock(fd, true)
		f = os.NewFile(uintptr(fd), "terminal")
	}
	return &doubleCommand{c, f}, nil
}

func (d fakeNodes) dial(ctx context.Context, c *fdsocket.Conn, network, address, user string) (net.Conn, error) {
	defer c.Close()
	f, err := d.call(c, ask{Op: "dial", Network: network, Address: address, User: user})
	if err != nil {
		return nil, err
	}
	return fileConn(f)
}

func (d fakeNodes) listen(ctx context.Context, c *fdsocket.Conn, network, address, owner string) (net.Listener, error) {
	defer c.Close()
	f, err := d.call(c, ask{Op: "listen", Network: network, Address: address, User: owner})
	if err != nil {
		return nil, err
	}
	return listenerOf(f)
}

type doubleCommand struct {
	c *fdsocket.Conn
	f *os.File
}

func (p *doubleCommand) terminal() *os.File { return p.f }
func (p *doubleCommand) Signal(n int) error { return p.c.Send(ask{Op: "signal", Signal: n}) }
func (p *doubleCommand) Wait() (agent.Exit, error) {
	var t told
	_, err := p.c.Receive(&t, 1<<16, 0)
	if err != nil || t.Exit == nil {
		return agent.Exit{}, errors.Join(err, errors.New("no exit"))
	}
	return *t.Exit, nil
}

func (p *doubleCommand) Close() error {
	if p.f != nil {
		p.f.Close()
	}
	return p.c.Close()
}

// node is the node's side: a folder of this host.
type node struct {
	t    testing.TB
	home string
	line string // replaces every command line, unless it is empty
}

// connect replaces the Manager's DialAgent.
func (n *node) connect() (*fdsocket.Conn, error) {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return nil, err
	}
	c, err := fdsocket.FromFile(theirs)
	if err != nil {
		return nil, err
	}
	go n.serve(ours)
	return c, nil
}

func (n *node) serve(c *fdsocket.Conn) {
	defer c.Close()
	var a ask
	files, err := c.Receive(&a, 1<<20, 3)
	if err != nil {
		return
	}
	defer closeFiles(files)
	give := func(f *os.File, err error) {
		if err != nil {
			c.Send(told{Error: err.Error()})
			return
		}
		c.Send(told{}, f)
		f.Close()
	}
	switch a.Op {
	case "dial":
		nc, err := net.Dial(a.Network, a.Address)
		if err != nil {
			give(nil, err)
			return
		}
		defer nc.Close()
		give(nc.(filer).File())
	case "listen":
		if a.Network == "unix" {
			os.MkdirAll(filepath.Dir(a.Address), 0o700)
		}
		l, err := net.Listen(a.Network, a.Address)
		if err != nil {
			give(nil, err)
			return
		}
		defer l.Close()
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		give(l.(filer).File())
	case "exec":
		if err := n.exec(c, a.Command, files); err != nil {
			c.Send(told{Error: err.Error()})
		}
	}
}

func (n *node) exec(c *fdsocket.Conn, cmd *agent.Command, files []*os.File) error {
	argv := []string{"/bin/sh", "-c", cmp.Or(n.line, cmd.Line)}
	switch {
	case len(cmd.Argv) > 0:
		argv = cmd.Argv
	case cmd.Line == "":
		argv = []string{"/bin/sh"}
	}
	p := exec.Command(argv[0], argv[1:]...)
	p.Dir = n.home
	p.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.home, "USER=" + cmd.User}, cmd.Env...)
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var master *os.File
	if cmd.Terminal != nil {
		var slave *os.File
		var err error
		if master, slave, err = openTerminal(cmd.Terminal); err != nil {
			return err
		}
		defer master.Close()
		files = []*os.File{slave, slave, slave}
		defer slave.Close()
		p.Env = append(p.Env, "TERM="+cmd.Terminal.Name, fmt.Sprintf("DOUBLE_MODES=%x", cmd.Terminal.Modes))
		p.SysProcAttr.Setctty = true
	}
	p.Stdin, p.Stdout, p.Stderr = files[0], files[1], files[2]
	if err := p.Start(); err != nil {
		return err
	}
	closeFiles(files)
	if master != nil {
		c.Send(told{}, master)
		master.Close()
	} else {
		c.Send(told{})
	}
	go func() {
		for {
			var a ask
			if _, err := c.Receive(&a, 1<<16, 0); err != nil {
				return
			}
			syscall.Kill(-p.Process.Pid, syscall.Signal(a.Signal))
		}
	}()
	p.Wait()
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	e := &agent.Exit{Status: status.ExitStatus()}
	if status.Signaled() {
		e = &agent.Exit{Signal: int(status.Signal())}
	}
	c.Send(told{Exit: e})
	return nil
}

func openTerminal(t *agent.Terminal) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number int
	err = withDescriptor(master, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
			return err
		}
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: t.Rows, Col: t.Cols})
	})
	if err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return master, slave, err
}
