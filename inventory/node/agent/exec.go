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

	"patchbay/inventory/provider/fdsocket"
)

// hangUpTime is how long a command may keep its terminal after SIGHUP, which it gets when
// its client has disconnected.
const hangUpTime = time.Second

// exec runs a command, and reports its start and its end on c. files are its standard files; a command with
// a terminal has none. exec closes them. An error means that the command did not start; the caller
// must report it.
func (a *agent) exec(c *fdsocket.Conn, cmd *Command, files []*os.File) error {
	defer func() { closeAll(files) }()
	if cmd == nil {
		return errors.New("the operation exec needs a command")
	}
	select {
	case <-a.halting:
		return errors.New("the node is shutting down")
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
		return fmt.Errorf("a command without a terminal needs 3 files, not %d", len(files))
	case cmd.Terminal != nil:
		master, slave, name, err := openTerminal(*cmd.Terminal, user)
		if err != nil {
			return fmt.Errorf("cannot open a terminal: %w", err)
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
	// The command's files are closed here, so that their readers see the command's end.
	// The master stays open until the command has received SIGHUP. If it were closed
	// earlier, a shell would read the end of its input, and would not end its jobs.
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

// motdLimit limits the shown part of /etc/motd, in bytes; a terminal can buffer as much.
const motdLimit = 3 << 10

// printMotd prints nothing if the user has a ~/.hushlogin.
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

// awaitExit reports the end of a command, or returns early when the client has
// disconnected. A command at a terminal gets SIGHUP when the client has disconnected or
// the node is halted.
func (a *agent) awaitExit(c *fdsocket.Conn, pid int, end <-chan Exit, gone <-chan struct{}, terminal bool) {
	halting := a.halting
	if !terminal {
		halting = nil
	}
	for {
		select {
		case exit := <-end:
			c.SetDeadline(time.Now().Add(requestTime))
			c.Send(answer{Exit: &exit}) // it fails if the client no longer reads
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
		case <-halting: // interactive shells ignore SIGTERM
			a.children.signal(pid, int(unix.SIGHUP))
			halting = nil
		}
	}
}

func procAttr(user account, env []string) *syscall.ProcAttr {
	return &syscall.ProcAttr{Dir: user.home, Env: env, Sys: &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: user.uid, Gid: user.gid, Groups: append([]uint32{user.gid}, user.groups...)},
	}}
}

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

// startProcess starts the program, and returns its id and the channel of its end. If it cannot start in
// attr.Dir, for example because the account cannot enter its home, it starts in /.
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

// startError explains a refused start if the host's setting yama.ptrace_scope is the cause.
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

// withDescriptors calls f with fds, followed by the descriptors of files. Unlike
// os.File.Fd, it does not change their blocking mode.
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
