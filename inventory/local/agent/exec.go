package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/wire"
)

// Limits of a command.
const (
	mostArguments = 1024
	mostVariables = 256
	wordLimit     = 128<<10 - 1 // bytes of a word; the kernel's own limit
)

const (
	userPath = "/usr/local/bin:/usr/bin:/bin:/usr/games"
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// exec starts a command, tells that it was, and then how it ended. files are
// its three files unless it gets a terminal.
func (a *agent) exec(c *wire.Conn, cmd *Command, files []*os.File) error {
	defer func() { closeAll(files) }()
	if cmd == nil {
		return errors.New("no command came with the operation exec")
	}
	if a.halting.Load() {
		return errors.New("the node is being stopped")
	}
	if err := a.commands.take("commands"); err != nil {
		return err
	}
	defer a.commands.leave()
	who, err := lookUp(cmd.User)
	if err != nil {
		return err
	}
	path, argv, env, err := words(*cmd, who)
	if err != nil {
		return err
	}
	var give []*os.File
	attr := procAttr(who, env)
	switch {
	case cmd.Terminal == nil && len(files) != 3:
		return fmt.Errorf("%d files came with a command, not 3", len(files))
	case cmd.Terminal != nil:
		master, slave, name, err := openTerminal(*cmd.Terminal, who)
		if err != nil {
			return fmt.Errorf("cannot make a terminal: %w", err)
		}
		closeAll(files)
		files = []*os.File{slave, slave, slave}
		give = []*os.File{master}
		defer closeAll(give)
		attr.Sys.Setctty = true
		attr.Env = append(attr.Env, "SSH_TTY="+name)
	}
	pid, end, err := a.startIn(path, argv, attr, files)
	if err != nil {
		return err
	}
	// From here on nobody keeps open what the command has: its reader shall
	// see the end, and a closed master shall hang up the terminal.
	closeAll(files)
	files = nil
	c.SetDeadline(time.Now().Add(requestTime))
	told := c.Send(answer{}, give...)
	closeAll(give)
	give = nil
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if told == nil {
			a.signals(c, pid)
		}
	}()
	c.SetDeadline(time.Time{})
	select {
	case exit := <-end:
		return a.tell(c, exit)
	case <-gone:
	}
	if cmd.Terminal != nil {
		a.children.signal(pid, int(unix.SIGHUP))
	}
	return nil
}

// procAttr starts a program as an account.
func procAttr(who account, env []string) *syscall.ProcAttr {
	return &syscall.ProcAttr{Dir: who.home, Env: env, Sys: &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: append([]uint32{who.gid}, who.groups...)},
	}}
}

// tell ends an exec; the other side may have stopped reading.
func (a *agent) tell(c *wire.Conn, exit Exit) error {
	c.SetDeadline(time.Now().Add(requestTime))
	c.Send(answer{Exit: &exit})
	return nil
}

// signals sends the signals that come over c, until it ends.
func (a *agent) signals(c *wire.Conn, pid int) {
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

// startIn starts a program in attr.Dir, or in / where the account has no home
// that it may enter.
func (a *agent) startIn(path string, argv []string, attr *syscall.ProcAttr, files []*os.File) (int, <-chan Exit, error) {
	var pid int
	var end <-chan Exit
	err := descend(files, nil, func(fds []uintptr) (err error) {
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

// descend calls f with the descriptors of files, as they are: os.File.Fd would
// change whether they block.
func descend(files []*os.File, fds []uintptr, f func([]uintptr) error) error {
	if len(files) == 0 {
		return f(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = descend(files[1:], append(fds, fd), f) })
	return errors.Join(controlled, err)
}

// words are the program, the arguments and the environment of a command.
func words(cmd Command, who account) (path string, argv, env []string, err error) {
	name := filepath.Base(who.shell)
	switch {
	case cmd.SFTP:
		path, argv = "/proc/self/exe", []string{Argv0, wordSFTP}
	case len(cmd.Argv) > 0:
		path, argv = cmd.Argv[0], cmd.Argv
	case cmd.Line != "":
		path, argv = who.shell, []string{name, "-c", cmd.Line}
	default:
		path, argv = who.shell, []string{"-" + name}
	}
	if !filepath.IsAbs(path) {
		return "", nil, nil, fmt.Errorf("the program %q has no absolute path", printable(path))
	}
	if len(argv) > mostArguments || len(cmd.Env) > mostVariables {
		return "", nil, nil, fmt.Errorf("a command has at most %d words and %d variables", mostArguments, mostVariables)
	}
	for _, word := range argv {
		if len(word) > wordLimit || strings.ContainsRune(word, 0) {
			return "", nil, nil, fmt.Errorf("a word of the command is longer than %d bytes or holds a zero byte", wordLimit)
		}
	}
	if env, err = environment(cmd, who); err != nil {
		return "", nil, nil, err
	}
	return path, argv, env, nil
}

// environment is the account's, and what the command adds, which wins.
func environment(cmd Command, who account) ([]string, error) {
	search := userPath
	if who.uid == 0 {
		search = rootPath
	}
	env := []string{
		"HOME=" + who.home, "USER=" + who.name, "LOGNAME=" + who.name, "SHELL=" + who.shell,
		"PATH=" + search, "LANG=C.UTF-8",
	}
	if cmd.Terminal != nil {
		env = append(env, "TERM="+termName(cmd.Terminal.Name))
	}
	for _, v := range cmd.Env {
		name, _, ok := strings.Cut(v, "=")
		if !ok || !isVariable(name) || len(v) > wordLimit || strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("%q is no variable of an environment: NAME=value", printable(v))
		}
		env = put(env, name, v)
	}
	return env, nil
}

// put sets a variable.
func put(env []string, name, text string) []string {
	for i := range env {
		if strings.HasPrefix(env[i], name+"=") {
			env[i] = text
			return env
		}
	}
	return append(env, text)
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r|0x20 < 'a' || r|0x20 > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// termName is name if it is one of a terminal, which programs make file names
// of.
func termName(name string) string {
	for _, r := range name {
		if !strings.ContainsRune("+-._", r) && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') {
			return "dumb"
		}
	}
	if name == "" || len(name) > 64 {
		return "dumb"
	}
	return name
}

// openTerminal makes a pseudo-terminal of the node's own, which belongs to the
// account.
func openTerminal(t Terminal, who account) (master, slave *os.File, name string, err error) {
	fd, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, "", err
	}
	master = os.NewFile(uintptr(fd), "terminal")
	defer func() {
		if err != nil {
			closeAll([]*os.File{master})
		}
	}()
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, "", err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, "", err
	}
	size := unix.Winsize{Row: t.Rows, Col: t.Cols}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
		return nil, nil, "", err
	}
	if err := setModes(fd, t.Modes); err != nil {
		return nil, nil, "", err
	}
	// The other end by descriptor: what lies at its path is up to the node.
	other, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, "", errno
	}
	slave = os.NewFile(other, "terminal")
	if err = slave.Chown(int(who.uid), ttyGroup()); err == nil {
		err = slave.Chmod(0o620)
	}
	if err != nil {
		closeAll([]*os.File{slave})
		return nil, nil, "", err
	}
	return master, slave, "/dev/pts/" + strconv.Itoa(number), nil
}

// ttyGroup is the group that may write to terminals.
func ttyGroup() int {
	group, err := readFile(groupFile, fileLimit)
	if err == nil {
		if id, ok := groupID(group, "tty"); ok {
			return int(id)
		}
	}
	return 5
}
