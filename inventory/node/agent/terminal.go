package agent

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// termName returns "dumb" for an invalid value of TERM, because programs use TERM in
// file names.
func termName(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if name == "" || len(name) > 64 || name[0] == '.' || strings.Trim(name, letters+"+-._") != "" {
		return "dumb"
	}
	return name
}

// openTerminal opens a pseudo-terminal in the node's devpts, owned by the account.
func openTerminal(t Terminal, user account) (master, slave *os.File, name string, err error) {
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
	// The slave is not opened by its path, since the node controls the file there.
	other, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, "", errno
	}
	slave = os.NewFile(other, "terminal")
	if err = slave.Chown(int(user.uid), ttyGroup()); err == nil {
		err = slave.Chmod(0o620)
	}
	if err != nil {
		closeAll([]*os.File{slave})
		return nil, nil, "", err
	}
	return master, slave, "/dev/pts/" + strconv.Itoa(number), nil
}

// ttyGroup returns the id of the group tty, which may write to terminals; 5 if the node has
// no such group.
func ttyGroup() int {
	group, err := readFile(groupFile, fileLimit)
	if err == nil {
		if id, ok := groupID(group, "tty"); ok {
			return int(id)
		}
	}
	return 5
}
