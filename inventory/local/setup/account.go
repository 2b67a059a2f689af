package setup

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	passwdFile  = "/etc/passwd"
	maxPasswd   = 4 << 20 // bytes
	searchPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultHome = "/root"
)

// account is the user that a step runs as.
type account struct {
	name        string
	uid, gid    int
	home, shell string
}

var root = account{name: "root", home: defaultHome, shell: "/bin/sh"}

// lookUpAccount treats an empty name as root. If the file or the account is missing, it
// returns root with an error. It is no error if the file does not list root.
func lookUpAccount(file, name string) (account, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return root, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPasswd))
	if err != nil {
		return root, err
	}
	if name == "" {
		name = root.name
	}
	for l := range bytes.Lines(text) {
		f := strings.Split(strings.TrimSuffix(string(l), "\n"), ":")
		if len(f) != 7 || f[0] != name {
			continue
		}
		uid, user := strconv.ParseUint(f[2], 10, 31)
		gid, group := strconv.ParseUint(f[3], 10, 31)
		if user != nil || group != nil || !path.IsAbs(f[5]) {
			continue
		}
		a := account{name, int(uid), int(gid), path.Clean(f[5]), f[6]}
		if a.shell == "" {
			a.shell = root.shell
		}
		return a, nil
	}
	if name == root.name {
		return root, nil
	}
	return root, fmt.Errorf("there is no account %s", name)
}

func (a account) environment() []string {
	return []string{
		"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell, "PATH=" + searchPath, "LANG=C.UTF-8",
	}
}

// sets reports whether environment has the variable name. PWD is of the shells.
func (a account) sets(name string) bool {
	return name == "PWD" || slices.ContainsFunc(a.environment(), func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// actAs switches the effective ids of all threads. The returned function switches back to
// root, which is possible because the real and saved ids stay root's.
func (a account) actAs() (restore func(), err error) {
	if a.uid == 0 {
		return func() {}, nil
	}
	if err := syscall.Setgroups([]int{a.gid}); err != nil {
		return nil, err
	}
	if err := syscall.Setresgid(-1, a.gid, -1); err != nil {
		return nil, err
	}
	if err := syscall.Setresuid(-1, a.uid, -1); err != nil {
		return nil, err
	}
	return func() {
		_ = syscall.Setresuid(-1, 0, -1) // allowed by the saved id, which is root's
		_ = syscall.Setresgid(-1, 0, -1)
		_ = syscall.Setgroups(nil)
	}, nil
}
