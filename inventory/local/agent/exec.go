package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/fdsocket"
)

// hangUpTime is how long a command that got SIGHUP keeps its terminal, unless
// it ends.
const hangUpTime = time.Second

// exec starts a command, tells that it was, and then how it ended. files are
// its three files unless it gets a terminal.
func (a *agent) exec(c *fdsocket.Conn, cmd *Command, files []*os.File) error {
	defer func() { closeAll(files) }()
	if cmd == nil {
		return errors.New("no command came with the operation exec")
	}
	select {
	case <-a.halting:
		return errors.New("the node is being stopped")
	default:
	}
	if err := a.commands.acquire("commands"); err != nil {
		return err
	}
	defer a.commands.release()
	user, err := lookUpAccount(cmd.User)
	if err != nil {
		return err
	}
	path, argv, env, err := commandLine(*cmd, user)
	if err != nil {
		return err
	}
	var give []*os.File
	attr := procAttr(user, env)
	switch {
	case cmd.Terminal == nil && len(files) != 3:
		return fmt.Errorf("%d files came with a command, not 3", len(files))
	case cmd.Terminal != nil:
		master, slave, name, err := openTerminal(*cmd.Terminal, user)
		if err != nil {
			return fmt.Errorf("cannot make a terminal: %w", err)
		}
		closeAll(files)
		files = []*os.File{slave, slave, slave}
		give = []*os.File{master}
		defer closeAll(give)
		attr.Sys.Setctty = true
		attr.Env = append(attr.Env, "SSH_TTY="+name)
		if strings.HasPrefix(argv[0], "-") {
			printMotd(slave, user)
		}
	}
	pid, end, err := a.startProcess(path, argv, attr, files)
	if err != nil {
		return err
	}
	// From here on nobody keeps open what the command has: its reader shall
	// see the end. The master stays open here until the command is hung up: a
	// shell that finds its terminal closed before it has SIGHUP takes that for
	// the end of its input, and lets its jobs live.
	closeAll(files)
	files = nil
	c.SetDeadline(time.Now().Add(requestTime))
	started := c.Send(answer{}, give...)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if started == nil {
			a.forwardSignals(c, pid)
		}
	}()
	c.SetDeadline(time.Time{})
	a.awaitExit(c, pid, end, gone, cmd.Terminal != nil)
	return nil
}

// motdLimit is how much of /etc/motd is shown, in bytes; a terminal buffers that much.
const motdLimit = 3 << 10

// printMotd shows /etc/motd at the terminal of a login shell, without our marks, unless
// its user does not want it.
func printMotd(terminal *os.File, user account) {
	text, err := readFile(motdFile, motdLimit)
	if _, hush := os.Lstat(user.home + "/.hushlogin"); err != nil || hush == nil {
		return
	}
	var shown []byte
	for line := range bytes.Lines(text) {
		if !isMark(string(line)) {
			shown = append(shown, line...)
		}
	}
	terminal.Write(shown)
}

// awaitExit waits until a command has ended, and tells how; or until gone, when nobody
// waits for it any more. A command at a terminal is hung up then, and when the node
// is halted.
func (a *agent) awaitExit(c *fdsocket.Conn, pid int, end <-chan Exit, gone <-chan struct{}, terminal bool) {
	halting := a.halting
	if !terminal {
		halting = nil
	}
	for {
		select {
		case exit := <-end:
			c.SetDeadline(time.Now().Add(requestTime))
			c.Send(answer{Exit: &exit}) // the other side may have stopped reading
			return
		case <-gone:
			if terminal {
				a.children.signal(pid, int(unix.SIGHUP))
				select {
				case <-end:
				case <-time.After(hangUpTime):
				}
			}
			return
		case <-halting: // shells at terminals pass over SIGTERM
			a.children.signal(pid, int(unix.SIGHUP))
			halting = nil
		}
	}
}

// procAttr starts a program as an account.
func procAttr(user account, env []string) *syscall.ProcAttr {
	return &syscall.ProcAttr{Dir: user.home, Env: env, Sys: &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: user.uid, Gid: user.gid, Groups: append([]uint32{user.gid}, user.groups...)},
	}}
}

// forwardSignals sends the signals that come over c, until it ends.
func (a *agent) forwardSignals(c *fdsocket.Conn, pid int) {
	for {
		var r request
		if _, err := c.Receive(&r, answerLimit, 0); err != nil || r.Op != opSignal {
			return
		}
		if r.Signal > 0 && r.Signal <= 64 {
			a.children.signal(pid, r.Signal)
		}
	}
}

// startProcess starts a program in attr.Dir, or in / where the account has no home
// that it may enter.
func (a *agent) startProcess(path string, argv []string, attr *syscall.ProcAttr, files []*os.File) (int, <-chan Exit, error) {
	var pid int
	var end <-chan Exit
	err := withDescriptors(files, nil, func(fds []uintptr) (err error) {
		attr.Files = fds
		pid, end, err = a.children.start(path, argv, attr)
		if err != nil && attr.Dir != "/" {
			attr.Dir = "/"
			pid, end, err = a.children.start(path, argv, attr)
		}
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("cannot start %s: %w", printable(path), startError(err))
	}
	return pid, end, nil
}

// startError explains a refusal that comes from the host's settings.
func startError(err error) error {
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if s := strings.TrimSpace(string(scope)); s == "2" || s == "3" {
		return fmt.Errorf("%w: the host forbids tracing; set kernel.yama.ptrace_scope to 0 or 1", err)
	}
	return err
}

// withDescriptors calls f with the descriptors of files, as they are: os.File.Fd would
// change whether they block.
func withDescriptors(files []*os.File, fds []uintptr, f func([]uintptr) error) error {
	if len(files) == 0 {
		return f(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = withDescriptors(files[1:], append(fds, fd), f) })
	return errors.Join(controlled, err)
}
