package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	shadowFile  = "/etc/shadow"
	recordsFile = "/var/lib/patchbay/accounts"
)

// Ids of people: images have theirs from 1000 on, and we give ours from 10000
// on, so that both can go on.
const (
	firstHuman = 1000
	firstOurs  = 10000
	lastOurs   = 59999
)

// record is an account that was ours at some time. It keeps its id for good, so
// that nobody gets the files of another.
type record struct {
	login string
	uid   uint32
	gone  bool // its account and its processes are removed
}

// books are the node's files of accounts, as text, and our records.
type books struct {
	passwd, shadow, group []byte
	records               []record

	old      map[string][]byte // how the files were read
	noShadow bool              // the image keeps no shadow file
}

// setAccounts makes the wanted accounts, all but those of the image's system, and
// removes those of ours that are no longer wanted. It returns those that are
// there, and those removed of which something may still run.
func setAccounts(wanted []Account, facts *Facts) (there []Account, gone []record, err error) {
	unlock := lockAccounts()
	defer unlock()
	b, err := openBooks()
	if err != nil {
		return nil, nil, err
	}
	keep := make(map[string]bool)
	for _, w := range wanted {
		keep[w.Login] = true
		if w.Login != root.name {
			err := b.add(w.Login)
			if errors.Is(err, errSystem) {
				facts.problem("the login "+w.Login, err)
				continue
			}
			if err != nil {
				return nil, nil, err
			}
		}
		there = append(there, w)
	}
	for _, r := range b.records {
		if !keep[r.login] && !r.gone {
			b.remove(r)
			gone = append(gone, r)
		}
	}
	return there, gone, b.write()
}

// errSystem says that an image has an account of that name for its own use.
var errSystem = errors.New("is an account of the image's system; another login is needed")

// forget remembers that nothing runs any more of former accounts.
func forget(gone []record) error {
	if len(gone) == 0 {
		return nil
	}
	old, err := readOld(recordsFile)
	if err != nil {
		return err
	}
	records := parseRecords(old)
	for i := range records {
		for _, g := range gone {
			if records[i].login == g.login {
				records[i].gone = true
			}
		}
	}
	return replaceFile(recordsFile, old, printRecords(records), 0o600)
}

func openBooks() (*books, error) {
	b := &books{old: make(map[string][]byte)}
	for _, f := range []struct {
		path string
		text *[]byte
	}{{passwdFile, &b.passwd}, {shadowFile, &b.shadow}, {groupFile, &b.group}} {
		text, err := readOld(f.path)
		if err != nil {
			return nil, err
		}
		b.old[f.path] = text
		*f.text = bytes.Clone(text)
	}
	if _, err := os.Lstat(shadowFile); errors.Is(err, fs.ErrNotExist) {
		b.noShadow = true
	}
	text, err := readOld(recordsFile)
	if err != nil {
		return nil, err
	}
	b.old[recordsFile] = text
	b.records = parseRecords(text)
	return b, nil
}

// write writes what differs: the records first, so that an id that was given
// stays given whatever happens next.
func (b *books) write() error {
	if err := os.MkdirAll(filepath.Dir(recordsFile), 0o755); err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		text []byte
		mode fs.FileMode
	}{
		{recordsFile, printRecords(b.records), 0o600},
		{groupFile, b.group, 0o644},
		{shadowFile, b.shadow, 0o640},
		{passwdFile, b.passwd, 0o644},
	} {
		if err := replaceFile(f.path, b.old[f.path], f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// add makes an account unless it is there. One that users made themselves
// becomes ours as it is.
func (b *books) add(login string) error {
	if len(b.passwd) == 0 {
		b.passwd = []byte("root:x:0:0:root:/root:/bin/sh\n")
	}
	there, ok := findAccount(b.passwd, login)
	if ok && there.uid < firstHuman {
		return errSystem
	}
	r := b.record(login)
	if ok {
		r.uid, r.gone = there.uid, false
	} else {
		if r.uid == 0 || b.usedBy(r.uid, login) {
			uid, err := b.free()
			if err != nil {
				return err
			}
			r.uid = uid
		}
		r.gone = false
		b.enter(login, r.uid)
	}
	b.shade(login)
	return nil
}

// enter adds the lines of a new account.
func (b *books) enter(login string, uid uint32) {
	number := strconv.Itoa(int(uid))
	gid := number
	if id, ok := groupID(b.group, login); ok {
		gid = strconv.Itoa(int(id))
	} else {
		b.group = addLine(b.group, login+":x:"+number+":")
	}
	password := "x"
	if b.noShadow {
		password = "*"
	}
	b.passwd = addLine(b.passwd, strings.Join([]string{login, password, number, gid, "", "/home/" + login, shell()}, ":"))
}

// shade makes the account one that has no password and is not locked: keys
// open it.
func (b *books) shade(login string) {
	if !b.noShadow && !hasEntry(b.shadow, login) {
		b.shadow = addLine(b.shadow, login+":*:::::::")
	}
}

// remove removes the lines of an account. Its group goes if it is its own and
// the id one of ours.
func (b *books) remove(r record) {
	b.passwd = dropEntry(b.passwd, r.login)
	b.shadow = dropEntry(b.shadow, r.login)
	if id, ok := groupID(b.group, r.login); ok && id == r.uid && id >= firstHuman {
		b.group = dropEntry(b.group, r.login)
	}
}

// record is the record of a login, a new one if there was none.
func (b *books) record(login string) *record {
	for i := range b.records {
		if b.records[i].login == login {
			return &b.records[i]
		}
	}
	b.records = append(b.records, record{login: login})
	return &b.records[len(b.records)-1]
}

// usedBy tells whether anything but login has an id by now.
func (b *books) usedBy(uid uint32, login string) bool {
	for line := range bytes.Lines(b.passwd) {
		if a, ok := parseAccount(line); ok && a.uid == uid && a.name != login {
			return true
		}
	}
	return false
}

// free is the first id of ours that no account, group or record has.
func (b *books) free() (uint32, error) {
	used := make(map[uint32]bool)
	for line := range bytes.Lines(b.passwd) {
		if a, ok := parseAccount(line); ok {
			used[a.uid], used[a.gid] = true, true
		}
	}
	for line := range bytes.Lines(b.group) {
		if f := strings.Split(string(line), ":"); len(f) == 4 {
			if id, ok := parseID(f[2]); ok {
				used[id] = true
			}
		}
	}
	for _, r := range b.records {
		used[r.uid] = true
	}
	for id := uint32(firstOurs); id <= lastOurs; id++ {
		if !used[id] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all user ids from %d to %d are taken in the node", firstOurs, lastOurs)
}

// parseRecords reads "login id" lines, with "gone" behind those that are; what
// is no such line is passed over.
func parseRecords(text []byte) []record {
	var list []record
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 2 || len(f) > 3 || !isLogin(f[0]) {
			continue
		}
		uid, ok := parseID(f[1])
		if !ok || uid < firstHuman || len(f) == 3 && f[2] != "gone" {
			continue
		}
		list = append(list, record{f[0], uid, len(f) == 3})
	}
	return list
}

func printRecords(list []record) []byte {
	var text []byte
	for _, r := range list {
		text = fmt.Appendf(text, "%s %d", r.login, r.uid)
		if r.gone {
			text = append(text, " gone"...)
		}
		text = append(text, '\n')
	}
	return text
}

// hasEntry tells whether a file of lines with colons has one for name.
func hasEntry(text []byte, name string) bool {
	for line := range bytes.Lines(text) {
		if isEntry(line, name) {
			return true
		}
	}
	return false
}

func isEntry(line []byte, name string) bool {
	first, _, ok := bytes.Cut(line, []byte(":"))
	return ok && string(first) == name
}

func addLine(text []byte, line string) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, line+"\n"...)
}

func dropEntry(text []byte, name string) []byte {
	kept := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		if !isEntry(line, name) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// shell is the shell of new accounts.
func shell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}
