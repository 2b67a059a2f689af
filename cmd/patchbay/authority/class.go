package authority

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/trial"
)

type classUser struct {
	place string // where the name was given, for messages
	name  string
	key   string // public SSH keys, or the name of a file with them; "" for none
	keys  []byte // the public SSH keys from key
	slice string // "" for none
}

// makeClass creates or renews the users of a class, with their slices and bundles, and prints a table of
// them. It creates nothing if the input for any user has a mistake.
func (o *userOptions) makeClass(ctx context.Context, t *userfolder.Trial, c command.Console) error {
	now := time.Now()
	class, err := o.readClass()
	if err != nil {
		return err
	}
	if class, err = o.preparePages(ctx, t, class, c); err != nil {
		return err
	}
	if wrong := o.completeClass(t, class); len(wrong) > 0 {
		for _, w := range wrong {
			fmt.Fprintln(c.Err, display.Printable(w))
		}
		return fmt.Errorf("nothing was created: correct %s first", display.Count(len(wrong), "mistake"))
	}
	var expires time.Time
	if o.Slice != "" && o.Request == "" {
		if expires, err = t.ExpiryOf(o.life, now); err != nil {
			return err
		}
	}
	if o.Bundle != "" && t.Port() == "0" {
		return errors.New("--bundle: the site listens on any free port; set listen or public_url in the configuration, so that the bundles can contain the site's URL")
	}
	done := &command.Table{Out: c.Out, Dash: true, Wide: true}
	done.Head("USER", "LOGIN", "SLICE", "FILE", "DONE")
	for _, m := range class {
		if err := o.makeUser(t, m, expires, now, done); err != nil {
			return errors.Join(done.Flush("Nothing was created."), fmt.Errorf("%s: %w; correct that and repeat the command", m.name, err))
		}
	}
	if err := done.Flush("The list names no user."); err != nil || len(class) == 0 {
		return err
	}
	if err := o.makePages(t, class, c); err != nil {
		return err
	}
	if u, err := url.Parse(t.URL); o.Bundle != "" && err == nil && site.IsLoopbackName(u.Hostname()) {
		fmt.Fprintf(c.Out, "\n%s cannot be reached from other machines. For users on other machines, set public_url in\n%s, restart the server, and repeat the command.\n", t.URL, t.Config.Origin.File)
	}
	return nil
}

// makePagesUser creates a user who needs only a browser. The user adds SSH keys in the pages, unless the list has one.
func (o *userOptions) makePagesUser(t *userfolder.Trial, m classUser, isNew bool, now time.Time, done *command.Table) (err error) {
	change := "nothing new"
	switch {
	case len(m.keys) > 0:
		change = "changed"
		_, err = t.UserWithKeys(m.name, m.keys, now)
	case isNew:
		err = t.UserForPages(m.name)
	}
	if isNew {
		change = "created"
	}
	done.Row(m.name, loginOf(urn.URN{Authority: t.URN().Authority, Type: urn.User, Name: m.name}), "", "", change)
	return err
}

// makeUser creates what is missing of a user, their slice and their bundle. With --renew, it also writes
// fresh credentials. It adds a row to the table done.
func (o *userOptions) makeUser(t *userfolder.Trial, m classUser, expires, now time.Time, done *command.Table) error {
	var changes []string
	isNew := !t.HasUser(m.name)
	if o.Bundle == "" && m.slice == "" && !isNew && !t.HasKey(m.name) {
		done.Row(m.name, "", "", "", "exists, by invitation")
		return nil
	}
	if o.Request != "" {
		return o.makePagesUser(t, m, isNew, now, done)
	}
	u, made, err := t.WriteUserWithKeys(m.name, m.keys, o.Renew, now)
	if err != nil {
		return err
	}
	switch {
	case isNew:
		changes = append(changes, "created")
	case made:
		changes = append(changes, "changed")
	}
	if m.slice != "" && (o.Renew || !hasCredential(u, m.slice, now)) {
		if _, _, _, err := t.WriteSlice(m.slice, u.Name, expires, now); err != nil {
			return err
		}
		changes = append(changes, "slice")
	}
	file := ""
	if o.Bundle != "" {
		file = filepath.Join(o.Bundle, u.Name+".zip")
		packed, err := bundle(t, u)
		if err != nil {
			return err
		}
		if have, err := site.ReadRegular(file); err != nil || !bytes.Equal(have, packed) {
			if err := site.ReplaceFile(file, packed, 0o600); err != nil {
				return err
			}
			changes = append(changes, "file")
		}
	}
	if len(changes) == 0 {
		changes = []string{"nothing new"}
	}
	done.Row(u.Name, loginOf(u.URN), m.slice, file, strings.Join(changes, ", "))
	return nil
}

// hasCredential reports whether the user has a valid credential of the slice.
func hasCredential(u *userfolder.User, slice string, now time.Time) bool {
	text, err := site.ReadRegular(u.CredentialFile(slice))
	if err != nil {
		return false
	}
	c, err := session.ReadCredential(text)
	return err == nil && now.Before(c.Expires)
}

// readClass returns the users of the arguments, or of the file of --list.
func (o *userOptions) readClass() (class []classUser, err error) {
	if o.List == "" {
		for _, name := range o.Names {
			class = append(class, classUser{place: name, name: name, key: o.SSHKey})
		}
		return class, nil
	}
	text, err := command.ReadInput(o.List)
	if err != nil {
		return nil, fmt.Errorf("--list: %w", err)
	}
	class, err = readList(o.List, text)
	if err != nil {
		return nil, fmt.Errorf("--list: %w", err)
	}
	for i, m := range class { // paths are relative to the list
		if m.key != "" && !isKeyText(m.key) && !filepath.IsAbs(m.key) && o.List != "-" {
			class[i].key = filepath.Join(filepath.Dir(o.List), m.key)
		}
	}
	return class, nil
}

// isKeyText reports whether s is a public SSH key and not the name of a file.
func isKeyText(s string) bool {
	kind, _, more := strings.Cut(s, " ")
	return more && (strings.HasPrefix(kind, "ssh-") || strings.HasPrefix(kind, "ecdsa-") || strings.HasPrefix(kind, "sk-"))
}

// readList expects a name and perhaps an SSH key on each line. If the first line has commas, the
// list is CSV.
func readList(file string, text []byte) (class []classUser, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // spreadsheet programs write this byte order mark
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(class) == 0 && strings.Contains(line, ",") {
			return readCSV(file, text)
		}
		name, key, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		class = append(class, classUser{place: fmt.Sprintf("%s:%d", file, n), name: name, key: strings.TrimSpace(key)})
	}
	return class, nil
}

func readCSV(file string, text []byte) (class []classUser, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment, r.FieldsPerRecord, r.TrimLeadingSpace = '#', -1, true
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	column := func(want string) int {
		return slices.IndexFunc(head, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), want) })
	}
	name, key := column("name"), column("ssh_key")
	if name < 0 {
		return nil, fmt.Errorf("%s is CSV, since its first line has commas, but no column is called name; the first line is: %s", file, strings.Join(head, ","))
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return class, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := r.FieldPos(0)
		cell := func(i int) string {
			if i < 0 || i >= len(row) {
				return ""
			}
			return strings.TrimSpace(row[i])
		}
		class = append(class, classUser{place: fmt.Sprintf("%s:%d", file, line), name: cell(name), key: cell(key)})
	}
}

// completeClass sets the SSH keys and the slice of each user of a class, and returns all mistakes.
func (o *userOptions) completeClass(t *userfolder.Trial, class []classUser) (wrong []string) {
	users, owned := map[string]string{}, map[string]string{} // places by name
	for i := range class {
		m := &class[i]
		note := func(format string, args ...any) {
			wrong = append(wrong, m.place+": "+fmt.Sprintf(format, args...))
		}
		if err := trial.CheckUser(m.name); err != nil {
			note("%v", err)
			continue
		}
		folded := strings.ToLower(m.name)
		if first, twice := users[folded]; twice {
			note("%s is also at %s; list each user once", m.name, first)
			continue
		}
		users[folded] = m.place
		if err := m.readKey(); err != nil {
			note("the SSH key of %s: %v", m.name, err)
		}
		if o.Slice == "" || o.Request != "" {
			continue
		}
		m.slice = o.Slice + "-" + strings.ReplaceAll(m.name, "_", "-")
		if len(m.slice) > maxSlice {
			note("the slice %s has %d characters, more than %d; choose a shorter --slice or a shorter name", m.slice, len(m.slice), maxSlice)
			continue
		}
		if first, twice := owned[strings.ToLower(m.slice)]; twice {
			note("%s would get the slice %s, like the user at %s; change one of the names", m.name, m.slice, first)
			continue
		}
		owned[strings.ToLower(m.slice)] = m.place
		isTaken, err := t.HasSlice(m.slice)
		if err != nil {
			note("%v", err)
		}
		if !isTaken {
			continue
		}
		if has := t.OtherOwner(m.slice, folded); has != "" {
			note("%s owns the slice %s; choose another --slice", has, m.slice)
		}
	}
	return wrong
}

// maxSlice is the longest name of a slice, in characters (AM API, identifiers).
const maxSlice = 19

func (m *classUser) readKey() (err error) {
	switch {
	case m.key == "":
		return nil
	case isKeyText(m.key):
		m.keys, err = trial.ParseSSHKeys([]byte(m.key))
	default:
		m.keys, err = userfolder.ReadSSHKeys(m.key)
	}
	return err
}
