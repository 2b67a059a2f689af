package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// Limits for reading the node's files, which the node's root can make arbitrarily large.
const (
	fileLimit = 4 << 20 // bytes
	maxGroups = 256     // of one account
)

// account is a line of /etc/passwd, with the account's other groups.
type account struct {
	name        string
	uid, gid    uint32
	home, shell string
	groups      []uint32
}

var root = account{name: "root", home: "/root", shell: "/bin/sh"}

// lookUpAccount returns the account of that name with its groups. Without an /etc/passwd, the node has only
// the account root.
func lookUpAccount(name string) (account, error) {
	passwd, err := readFile(passwdFile, fileLimit)
	if errors.Is(err, fs.ErrNotExist) && name == root.name {
		return root, nil
	}
	if err != nil {
		return account{}, err
	}
	a, ok := findAccount(passwd, name)
	if !ok {
		return account{}, fmt.Errorf("the node has no account %q", printable(name))
	}
	group, err := readFile(groupFile, fileLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, err
	}
	a.groups = groupsOf(group, name)
	return a, nil
}

// findAccount skips malformed lines.
func findAccount(passwd []byte, name string) (account, bool) {
	for line := range bytes.Lines(passwd) {
		if found, _, _ := bytes.Cut(line, []byte(":")); string(found) != name {
			continue
		}
		if a, ok := parseAccount(line); ok {
			return a, true
		}
	}
	return account{}, false
}

// parseAccount treats an empty shell as /bin/sh.
func parseAccount(line []byte) (account, bool) {
	f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
	if len(f) != 7 || f[0] == "" {
		return account{}, false
	}
	uid, okUser := parseID(f[2])
	gid, okGroup := parseID(f[3])
	a := account{name: f[0], uid: uid, gid: gid, home: f[5], shell: f[6]}
	if a.shell == "" {
		a.shell = "/bin/sh"
	}
	return a, okUser && okGroup
}

// parseID refuses the largest number, which means no id.
func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && uint32(n) != ^uint32(0)
}

// groupsOf returns the ids of the groups in /etc/group that list name, at most maxGroups.
func groupsOf(group []byte, name string) []uint32 {
	var ids []uint32
	for line := range bytes.Lines(group) {
		if !bytes.Contains(line, []byte(name)) {
			continue
		}
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if id, ok := parseID(f[2]); ok && len(ids) < maxGroups {
			ids = append(ids, id)
		}
	}
	return ids
}

func groupID(group []byte, name string) (uint32, bool) {
	for line := range bytes.Lines(group) {
		f := strings.Split(string(line), ":")
		if len(f) == 4 && f[0] == name {
			return parseID(f[2])
		}
	}
	return 0, false
}

// readFile reads a regular file of at most limit bytes. It refuses other files, such as
// pipes, without waiting for them.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	// The whole buffer is allocated at once, since growing it leaves garbage. Files in /proc
	// report a size of 0.
	text := make([]byte, 0, min(max(stat.Size(), 511), limit)+1)
	for {
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		case int64(len(text)) > limit:
			return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
		case len(text) == cap(text):
			text = slices.Grow(text, 1)
		}
	}
}
