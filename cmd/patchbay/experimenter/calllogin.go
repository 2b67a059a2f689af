package experimenter

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/urn"
)

// addLogins adds the users of --login to the logins of the call. The paths are those of the caller's
// files. It fails for a method that creates no accounts.
func (o *callOptions) addLogins(me *session.Caller, paths []string) error {
	if len(o.Logins) == 0 {
		return nil
	}
	sh, known := shapes[o.API][o.method]
	isUpdate := len(o.args) > 0 && strings.HasSuffix(o.args[0], "update_users")
	createsAccounts := sh.users || strings.Contains(sh.params, "k") || isUpdate
	switch {
	case known && !createsAccounts:
		return fmt.Errorf("--login: %s creates no accounts; give it to %s", o.method, loginMethods[o.API])
	case slices.ContainsFunc(o.Options, func(s string) bool { return strings.HasPrefix(s, "geni_users=") }):
		return errors.New("--login and --option geni_users both name the users; give one of them")
	}
	for _, who := range o.Logins {
		u, err := o.userOf(me, who, paths)
		if err != nil {
			return fmt.Errorf("--login %s: %w", who, err)
		}
		me.Logins = append(me.Logins, u)
	}
	return nil
}

var loginMethods = map[int]string{
	2: "CreateSliver",
	3: "Provision, or for existing nodes to PerformOperationalAction update_users",
}

// userOf returns the user and the public keys of a value of --login: a user's folder, a user's name, or
// NAME=FILE with public keys in FILE. A named user's folder is in the site, or next to the caller's
// folder.
func (o *callOptions) userOf(me *session.Caller, value string, paths []string) (client.User, error) {
	if name, file, ok := strings.Cut(value, "="); ok {
		return userFromFile(me, name, file)
	}
	folders := []string{value}
	if value == filepath.Base(value) {
		for _, f := range paths {
			if path, err := filepath.Abs(f); err == nil {
				folders = append(folders, filepath.Join(filepath.Dir(path), strings.ToLower(value)))
			}
		}
		folders = append(folders, filepath.Join(filepath.Dir(o.site.Path()), site.UsersDir, strings.ToLower(value)))
	}
	for _, dir := range folders {
		if userfolder.IsFolder(dir) {
			return session.UserFromFolder(dir)
		}
	}
	if userfolder.FileExists(value) {
		return client.User{}, fmt.Errorf("the file has no user name; give --login NAME=%s", value)
	}
	var have []string
	for _, f := range folders[1:] {
		have = append(have, userfolder.Users(filepath.Dir(f))...)
	}
	slices.Sort(have)
	have = slices.Compact(have)
	return client.User{}, fmt.Errorf("there is no such user here; %sgive NAME=FILE with their public SSH key", userfolder.SuggestNames(value, have))
}

// userFromFile accepts as name a URN, or the name of a user of the caller's authority.
func userFromFile(me *session.Caller, name, file string) (client.User, error) {
	keys, err := userfolder.ReadSSHKeys(file)
	if err != nil {
		return client.User{}, err
	}
	u, err := urn.Parse(name)
	if err != nil {
		owner, err := urn.Parse(me.Owner())
		u = urn.URN{Authority: owner.Authority, Type: urn.User, Name: urn.Transcribe(name)}
		if err != nil || u.Name == "" {
			return client.User{}, fmt.Errorf("the authority of %q is unknown; give a URN, such as urn:publicid:IDN+example.org+user+alice", name)
		}
	}
	return client.User{URN: u.String(), Keys: strings.Split(strings.TrimSpace(string(keys)), "\n")}, nil
}
