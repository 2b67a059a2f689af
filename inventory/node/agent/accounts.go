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

// User ids of accounts. Images use ids from 1000 on. The testbed uses ids from 10000 on,
// so that smaller ids stay free for accounts that the users of the node add.
const (
	firstUserID    = 1000
	firstManagedID = 10000
	lastManagedID  = 59999
)

// accountRecord is an account that the testbed once added. Its id is never given to
// another account, which would then own its files.
type accountRecord struct {
	login   string
	uid     uint32
	removed bool // the account and its processes are removed
}

type accountFiles struct {
	passwd, shadow, group []byte
	records               []accountRecord

	original map[string][]byte // the files as read
	noShadow bool              // the image has no shadow file
}

// setAccounts adds the listed accounts, except those whose login is a system account of
// the image. It removes the testbed's other accounts. present are the listed accounts
// that exist. The accounts in removed may still have processes.
func setAccounts(accounts []Account, facts *Facts) (present []Account, removed []accountRecord, err error) {
	unlock := lockAccounts()
	defer unlock()
	files, err := readAccountFiles()
	if err != nil {
		return nil, nil, err
	}
	keep := make(map[string]bool)
	for _, w := range accounts {
		keep[w.Login] = true
		if w.Login != root.name {
			err := files.addAccount(w.Login)
			if errors.Is(err, errSystem) {
				facts.problem("the login "+w.Login, err)
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			facts.UserIDs[w.Login] = files.record(w.Login).uid
		}
		present = append(present, w)
	}
	for _, r := range files.records {
		if !keep[r.login] && !r.removed {
			files.removeAccount(r)
			removed = append(removed, r)
		}
	}
	return present, removed, files.save()
}

var errSystem = errors.New("is a system account of the image; choose another login")

// markRemoved records that the processes of removed accounts have ended.
func markRemoved(removed []accountRecord) error {
	if len(removed) == 0 {
		return nil
	}
	old, err := readIfExists(recordsFile)
	if err != nil {
		return err
	}
	records := parseRecords(old)
	for i := range records {
		for _, g := range removed {
			if records[i].login == g.login {
				records[i].removed = true
			}
		}
	}
	return updateFile(recordsFile, old, printRecords(records), 0o600)
}

func readAccountFiles() (*accountFiles, error) {
	files := &accountFiles{original: make(map[string][]byte)}
	for _, f := range []struct {
		path string
		text *[]byte
	}{{passwdFile, &files.passwd}, {shadowFile, &files.shadow}, {groupFile, &files.group}} {
		text, err := readIfExists(f.path)
		if err != nil {
			return nil, err
		}
		files.original[f.path] = text
		*f.text = bytes.Clone(text)
	}
	if _, err := os.Lstat(shadowFile); errors.Is(err, fs.ErrNotExist) {
		files.noShadow = true
	}
	text, err := readIfExists(recordsFile)
	if err != nil {
		return nil, err
	}
	files.original[recordsFile] = text
	files.records = parseRecords(text)
	return files, nil
}

// save writes the records first, so that an id in use is always recorded.
func (files *accountFiles) save() error {
	if err := os.MkdirAll(filepath.Dir(recordsFile), 0o755); err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		text []byte
		mode fs.FileMode
	}{
		{recordsFile, printRecords(files.records), 0o600},
		{groupFile, files.group, 0o644},
		{shadowFile, files.shadow, 0o640},
		{passwdFile, files.passwd, 0o644},
	} {
		if err := updateFile(f.path, files.original[f.path], f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// addAccount adds an account of the experiment with its record, unless an account of that name exists: then
// it records that one, which users of the node may have added. A former account gets its id back if that is
// free. addAccount fails with errSystem for a system account of the image.
func (files *accountFiles) addAccount(login string) error {
	if len(files.passwd) == 0 {
		files.passwd = []byte("root:x:0:0:root:/root:/bin/sh\n")
	}
	existing, ok := findAccount(files.passwd, login)
	if ok && existing.uid < firstUserID {
		return errSystem
	}
	r := files.record(login)
	if ok {
		r.uid, r.removed = existing.uid, false
	} else {
		if r.uid == 0 || files.isUsedByOther(r.uid, login) {
			uid, err := files.freeID()
			if err != nil {
				return err
			}
			r.uid = uid
		}
		r.removed = false
		files.addEntries(login, r.uid)
	}
	files.addShadowEntry(login)
	return nil
}

// addEntries uses an existing group of the same name as the account's group.
func (files *accountFiles) addEntries(login string, uid uint32) {
	number := strconv.Itoa(int(uid))
	gid := number
	if id, ok := groupID(files.group, login); ok {
		gid = strconv.Itoa(int(id))
	} else {
		files.group = addLine(files.group, login+":x:"+number+":")
	}
	password := "x"
	if files.noShadow {
		password = "*"
	}
	files.passwd = addLine(files.passwd, strings.Join([]string{login, password, number, gid, "", "/home/" + login, shell()}, ":"))
}

// addShadowEntry adds an account that has no password but is not locked, so that its
// user can log in with a key.
func (files *accountFiles) addShadowEntry(login string) {
	if !files.noShadow && !hasEntry(files.shadow, login) {
		files.shadow = addLine(files.shadow, login+":*:::::::")
	}
}

// removeAccount removes the lines of an account, and the line of the group that has the
// same name and id.
func (files *accountFiles) removeAccount(r accountRecord) {
	files.passwd = dropEntry(files.passwd, r.login)
	files.shadow = dropEntry(files.shadow, r.login)
	if id, ok := groupID(files.group, r.login); ok && id == r.uid && id >= firstUserID {
		files.group = dropEntry(files.group, r.login)
	}
}

// record adds an empty record if the login has none.
func (files *accountFiles) record(login string) *accountRecord {
	for i := range files.records {
		if files.records[i].login == login {
			return &files.records[i]
		}
	}
	files.records = append(files.records, accountRecord{login: login})
	return &files.records[len(files.records)-1]
}

func (files *accountFiles) isUsedByOther(uid uint32, login string) bool {
	for line := range bytes.Lines(files.passwd) {
		if a, ok := parseAccount(line); ok && a.uid == uid && a.name != login {
			return true
		}
	}
	return false
}

// freeID returns the first id, from firstManagedID on, that no account, group or record
// uses.
func (files *accountFiles) freeID() (uint32, error) {
	used := make(map[uint32]bool)
	for line := range bytes.Lines(files.passwd) {
		if a, ok := parseAccount(line); ok {
			used[a.uid], used[a.gid] = true, true
		}
	}
	for line := range bytes.Lines(files.group) {
		if f := strings.Split(string(line), ":"); len(f) == 4 {
			if id, ok := parseID(f[2]); ok {
				used[id] = true
			}
		}
	}
	for _, r := range files.records {
		used[r.uid] = true
	}
	for id := uint32(firstManagedID); id <= lastManagedID; id++ {
		if !used[id] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all user ids from %d to %d are taken in the node", firstManagedID, lastManagedID)
}

// parseRecords parses lines "LOGIN ID", followed by "gone" for removed accounts. It skips
// other lines.
func parseRecords(text []byte) []accountRecord {
	var list []accountRecord
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 2 || len(f) > 3 || !isLogin(f[0]) {
			continue
		}
		uid, ok := parseID(f[1])
		if !ok || uid < firstUserID || len(f) == 3 && f[2] != "gone" {
			continue
		}
		list = append(list, accountRecord{f[0], uid, len(f) == 3})
	}
	return list
}

func printRecords(list []accountRecord) []byte {
	var text []byte
	for _, r := range list {
		text = fmt.Appendf(text, "%s %d", r.login, r.uid)
		if r.removed {
			text = append(text, " gone"...)
		}
		text = append(text, '\n')
	}
	return text
}

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

func shell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}
