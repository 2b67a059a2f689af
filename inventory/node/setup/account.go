package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
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

// lookUpAccount returns the account of that name in the folder etc; an empty name means root. If the file or
// the account is missing, it returns root with an error. It is no error if the file does not list root.
func lookUpAccount(etc, name string) (account, error) {
	text, err := readAccountFile(filepath.Join(etc, "passwd"))
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

// maxGroups is the maximum number of groups of an account besides its own.
const maxGroups = 256

// groupsOf returns the numbers of the groups that list the account.
func groupsOf(etc, name string) (numbers []uint32, err error) {
	text, err := readAccountFile(filepath.Join(etc, "group"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for l := range bytes.Lines(text) {
		f := strings.Split(strings.TrimSuffix(string(l), "\n"), ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if n, ok := parseID(f[2]); ok && len(numbers) < maxGroups {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
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
