package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

func (o *callOptions) addLogins(me *caller, users []string) error {
	if len(o.Logins) == 0 {
		return nil
	}
	sh, known := shapes[o.API][o.method]
	update := len(o.args) > 0 && strings.HasSuffix(o.args[0], "update_users")
	switch {
	case known && !sh.users && !strings.Contains(sh.params, "k") && !update:
		return fmt.Errorf("--login: %s creates no accounts; give it to %s", o.method, loginMethods[o.API])
	case slices.ContainsFunc(o.Options, func(s string) bool { return strings.HasPrefix(s, "geni_users=") }):
		return errors.New("--login and --option geni_users both name the users; give one of them")
	}
	for _, who := range o.Logins {
		u, err := o.login(me, who, users)
		if err != nil {
			return fmt.Errorf("--login %s: %w", who, err)
		}
		me.logins = append(me.logins, u)
	}
	return nil
}

var loginMethods = map[int]string{
	2: "CreateSliver",
	3: "Provision, or for existing nodes to PerformOperationalAction update_users",
}

// login accepts a user's folder, a user's name, or NAME=FILE with public keys in FILE. A
// named user's folder is in the site, or next to the caller's folder.
func (o *callOptions) login(me *caller, value string, users []string) (client.User, error) {
	if name, file, ok := strings.Cut(value, "="); ok {
		return me.userFromFile(name, file)
	}
	folders := []string{value}
	if value == filepath.Base(value) {
		for _, f := range users {
			if path, err := filepath.Abs(f); err == nil {
				folders = append(folders, filepath.Join(filepath.Dir(path), strings.ToLower(value)))
			}
		}
		folders = append(folders, filepath.Join(filepath.Dir(o.site.path()), site.UsersDir, strings.ToLower(value)))
	}
	for _, dir := range folders {
		if isFolder(dir) {
			return userFromFolder(dir)
		}
	}
	if exists(value) {
		return client.User{}, fmt.Errorf("the file has no user name; give --login NAME=%s", value)
	}
	var have []string
	for _, f := range folders[1:] {
		have = append(have, userNamesIn(filepath.Dir(f))...)
	}
	slices.Sort(have)
	have = slices.Compact(have)
	return client.User{}, fmt.Errorf("there is no such user here; %sgive NAME=FILE with their public SSH key", suggestNames(value, have))
}

// userFromFile accepts as name a URN, or the name of a user of the caller's authority.
func (me *caller) userFromFile(name, file string) (client.User, error) {
	keys, err := readSSHKeys(file)
	if err != nil {
		return client.User{}, err
	}
	u, err := urn.Parse(name)
	if err != nil {
		owner, err := urn.Parse(me.owner())
		u = urn.URN{Authority: owner.Authority, Type: urn.User, Name: urn.Transcribe(name)}
		if err != nil || u.Name == "" {
			return client.User{}, fmt.Errorf("the authority of %q is unknown; give a URN, such as urn:publicid:IDN+example.org+user+alice", name)
		}
	}
	return client.User{URN: u.String(), Keys: strings.Split(strings.TrimSpace(string(keys)), "\n")}, nil
}

// userFromFolder returns the user of a folder that "patchbay user" created.
func userFromFolder(dir string) (client.User, error) {
	files := globbed(dir, "*-cert.pem")
	if len(files) == 0 {
		return client.User{}, fmt.Errorf("the folder %s holds no NAME-cert.pem; create it with: %s", dir, display.Command("user", "NAME"))
	}
	text, err := site.ReadRegular(files[0])
	if err != nil {
		return client.User{}, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return client.User{}, fmt.Errorf("%s: %w", files[0], err)
	}
	u := client.User{URN: list[0].URN.String()}
	for _, f := range globbed(dir, "id_*.pub") {
		keys, err := readSSHKeys(f)
		if err != nil {
			return client.User{}, err
		}
		u.Keys = append(u.Keys, strings.Split(strings.TrimSpace(string(keys)), "\n")...)
	}
	if len(u.Keys) == 0 {
		return client.User{}, fmt.Errorf("the folder %s holds no public SSH key, id_….pub", dir)
	}
	return u, nil
}
