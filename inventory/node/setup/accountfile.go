package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/file"
)

const (
	maxAccountFile = 4 << 20 // bytes
	// lockTime is the time that the C library and the shadow tools wait for the lock.
	lockTime = 15 * time.Second
	// agentRecords are the accounts that the node's agent ever added, with their numbers, lines
	// "NAME NUMBER". It is in the folder of the services.
	agentRecords = "accounts"
)

// accountFiles are the files that describe the accounts of a node.
type accountFiles struct {
	passwd, shadow, group, gshadow accountFile
	// reserved are the numbers that the node's agent may give to its accounts again.
	reserved map[uint32]bool
}

// accountFile is a file with a line for each account.
type accountFile struct {
	path      string
	text      []byte
	isMissing bool
	changed   bool
}

// readAccountFile reads a regular file of at most maxAccountFile bytes. It does not wait for pipes.
func readAccountFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAccountFile+1))
	if err == nil && len(text) > maxAccountFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxAccountFile)
	}
	return text, err
}

// lockAccounts locks the files against useradd, similar programs, and the node's agent.
func lockAccounts(etc string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(etc, ".pwd.lock"), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTime); ; time.Sleep(10 * lockPause) {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			return func() { f.Close() }, nil
		}
		if time.Now().After(until) {
			return nil, errors.Join(fmt.Errorf("another program has locked %s for %v: %w", f.Name(), lockTime, err), f.Close())
		}
	}
}

// readAccounts reads the account files, and the ids that the node's agent has reserved. A missing file is empty.
func (f *folders) readAccounts() (*accountFiles, error) {
	files := &accountFiles{}
	for _, a := range []struct {
		name string
		file *accountFile
	}{{"passwd", &files.passwd}, {"shadow", &files.shadow}, {"group", &files.group}, {"gshadow", &files.gshadow}} {
		path := filepath.Join(f.etc, a.name)
		text, err := readAccountFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*a.file = accountFile{path: path, text: text, isMissing: err != nil}
	}
	if len(files.passwd.text) == 0 {
		files.passwd.add("root:x:0:0:root:/root:/bin/sh")
	}
	records, err := readAccountFile(filepath.Join(filepath.Dir(f.services), agentRecords))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files.reserved = reservedIDs(records)
	return files, nil
}

func reservedIDs(records []byte) map[uint32]bool {
	reserved := map[uint32]bool{}
	for line := range bytes.Lines(records) {
		if f := strings.Fields(string(line)); len(f) > 1 {
			if id, ok := parseID(f[1]); ok {
				reserved[id] = true
			}
		}
	}
	return reserved
}

// save writes the changed files. An account is complete when its line of passwd exists, so that
// file is the last one.
func (files *accountFiles) save() error {
	for _, f := range []*accountFile{&files.gshadow, &files.group, &files.shadow, &files.passwd} {
		if err := f.save(); err != nil {
			return err
		}
	}
	return nil
}

// save replaces the file, which keeps its mode and owners.
func (f *accountFile) save() (err error) {
	if !f.changed {
		return nil
	}
	mode, uid, gid := fs.FileMode(0o644), 0, 0
	if st, err := os.Lstat(f.path); err == nil && st.Mode().IsRegular() {
		owner := st.Sys().(*syscall.Stat_t)
		mode, uid, gid = st.Mode().Perm(), int(owner.Uid), int(owner.Gid)
	}
	fresh := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".setup")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed process
		return err
	}
	to, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(f.text)
	if err = errors.Join(err, to.Chown(uid, gid), to.Chmod(mode), to.Sync(), to.Close()); err == nil {
		err = os.Rename(fresh, f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return file.SyncFolder(filepath.Dir(f.path))
}

func (f *accountFile) add(line string) {
	if len(f.text) > 0 && f.text[len(f.text)-1] != '\n' {
		f.text = append(f.text, '\n')
	}
	f.text, f.changed = append(f.text, line+"\n"...), true
}

// addIfUsed adds the line of a name unless the node has no such file or already has a line of that
// name.
func (f *accountFile) addIfUsed(name, line string) {
	has := bytes.HasPrefix(f.text, []byte(name+":")) || bytes.Contains(f.text, []byte("\n"+name+":"))
	if !f.isMissing && !has {
		f.add(line)
	}
}

// numbers returns the accounts of the file, whose lines have so many fields, the third of which is
// the number.
func (f *accountFile) numbers(fields int, reserved map[uint32]bool, ids idRanges) *numbers {
	n := &numbers{byName: map[string]uint32{}, taken: maps.Clone(reserved), ids: ids}
	for line := range bytes.Lines(f.text) {
		part := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(part) != fields {
			continue
		}
		id, ok := parseID(part[2])
		if !ok {
			continue
		}
		if _, again := n.byName[part[0]]; !again { // programs use the first line
			n.byName[part[0]] = id
		}
		n.taken[id] = true
	}
	return n
}

// numbers are the numbers of the users or of the groups of a node.
type numbers struct {
	byName map[string]uint32
	taken  map[uint32]bool
	ids    idRanges
}

// firstID is the first number for accounts that are not part of the system.
const firstID = 1000

// choose returns the number want for the new account name, or the next one that is free and that
// the node can have.
func (n *numbers) choose(name string, want uint32) (uint32, error) {
	for _, from := range []uint32{want, max(want, firstID), firstID} {
		for id := from; id != noID && n.ids.has(id); id++ {
			if !n.taken[id] {
				n.byName[name], n.taken[id] = id, true
				return id, nil
			}
			if id < firstID { // the other numbers of the system are for its own accounts
				break
			}
		}
	}
	return 0, fmt.Errorf("the node has no free number for the account %s", name)
}

// idRanges are the ids that the user namespace of the node has.
type idRanges []idRange

type idRange struct{ first, count uint64 }

func (r idRanges) has(id uint32) bool {
	return slices.ContainsFunc(r, func(r idRange) bool { return uint64(id) >= r.first && uint64(id)-r.first < r.count })
}

// readIDRanges reads /proc/self/uid_map or gid_map.
func readIDRanges(path string) (idRanges, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseIDRanges(text)
}

func parseIDRanges(text []byte) (ranges idRanges, err error) {
	for line := range bytes.Lines(text) {
		var r idRange
		var outside uint64
		if _, err := fmt.Sscan(string(line), &r.first, &outside, &r.count); err != nil {
			return nil, fmt.Errorf("the id map %.80q cannot be read: %w", line, err)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && uint32(n) != noID
}
