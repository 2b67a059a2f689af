package setup

import (
	"fmt"
	"slices"
	"time"

	"patchbay/rspec/step"
)

// owners are the owners that the entries of an archive get in the node.
type owners struct {
	archive *step.Archive
	// The ids that the node can have.
	userIDs, groupIDs idRanges
	// The numbers of the accounts of the archive in the node, by their numbers in the archive.
	users, groups map[uint32]uint32
	// sole is the owner of all entries of an archive that has no owners, such as a zip.
	sole *owner
}

type owner struct{ user, group int }

// newOwners expects the home of the first account, which ~ stands for in paths.
func newOwners(a *step.Archive, home string) (o *owners, err error) {
	own := *a
	own.Folders = slices.Clone(a.Folders)
	for i := range own.Folders {
		own.Folders[i].Path = expandHome(own.Folders[i].Path, home)
	}
	o = &owners{archive: &own, users: map[uint32]uint32{}, groups: map[uint32]uint32{}}
	if o.userIDs, err = readIDRanges("/proc/self/uid_map"); err != nil {
		return nil, err
	}
	o.groupIDs, err = readIDRanges("/proc/self/gid_map")
	return o, err
}

// createAccounts creates the missing accounts of the archive, and fills in their numbers.
func (o *owners) createAccounts(f *folders, note func(string, ...any)) error {
	unlock, err := lockAccounts(f.etc)
	if err != nil {
		return err
	}
	defer unlock()
	files, err := f.readAccounts()
	if err != nil {
		return err
	}
	if err := o.addAccounts(files, time.Now(), note); err != nil {
		return err
	}
	return files.save()
}

// addAccounts adds the missing groups, then the missing users. A name that exists keeps its number.
// A number that is taken is replaced by the next free one.
func (o *owners) addAccounts(files *accountFiles, now time.Time, note func(string, ...any)) error {
	groups, users := files.group.numbers(4, files.reserved, o.groupIDs), files.passwd.numbers(7, files.reserved, o.userIDs)
	group := func(name string, want uint32) (uint32, error) {
		if id, ok := groups.byName[name]; ok {
			return id, nil
		}
		id, err := groups.choose(name, want)
		if err == nil {
			files.group.add(fmt.Sprintf("%s:x:%d:", name, id))
			files.gshadow.addIfUsed(name, name+":!::")
			note("created the group %s with the number %d", name, id)
		}
		return id, err
	}
	for _, g := range o.archive.Groups {
		id, err := group(g.Name, g.ID)
		if err != nil {
			return err
		}
		o.groups[g.ID] = id
	}
	for _, u := range o.archive.Users {
		if id, ok := users.byName[u.Name]; ok {
			o.users[u.ID] = id
			continue
		}
		id, err := users.choose(u.Name, u.ID)
		if err != nil {
			return err
		}
		primary, ok := o.groups[u.ID]
		if !ok {
			if primary, err = group(u.Name, id); err != nil {
				return err
			}
		}
		o.users[u.ID] = id
		password := "x"
		if files.shadow.isMissing {
			password = "*"
		}
		files.passwd.add(fmt.Sprintf("%s:%s:%d:%d::/home/%s:/bin/sh", u.Name, password, id, primary, u.Name))
		files.shadow.addIfUsed(u.Name, fmt.Sprintf("%s:!:%d:0:99999:7:::", u.Name, now.Unix()/(24*60*60)))
		note("created the user %s with the number %d", u.Name, id)
	}
	return nil
}

// check fails if the node cannot have an owner of the archive. It needs no accounts.
func (o *owners) check(what string, user, group int64) error {
	known := func(list []step.Account, ids idRanges, id int64) bool {
		for _, a := range list {
			if int64(a.ID) == id {
				return true
			}
		}
		return id >= 0 && id < int64(noID) && ids.has(uint32(id))
	}
	switch {
	case !known(o.archive.Users, o.userIDs, user):
		return fmt.Errorf("the archive is refused: %.120q belongs to user %d, a number that the node cannot have; list it as a user of the archive", what, user)
	case !known(o.archive.Groups, o.groupIDs, group):
		return fmt.Errorf("the archive is refused: %.120q belongs to group %d, a number that the node cannot have; list it as a group of the archive", what, group)
	}
	return nil
}

// inNode returns the owner in the node for numbers of the archive that check accepts.
func (o *owners) inNode(user, group int64) owner {
	w := owner{int(user), int(group)}
	if id, ok := o.users[uint32(user)]; ok {
		w.user = int(id)
	}
	if id, ok := o.groups[uint32(group)]; ok {
		w.group = int(id)
	}
	return w
}

// innermost returns the owner of the longest listed folder; root's if none is listed.
func (o *owners) innermost() (w owner) {
	length := 0
	for _, f := range o.archive.Folders {
		if len(f.Path) > length {
			length, w = len(f.Path), o.inNode(int64(f.User), int64(f.Group))
		}
	}
	return w
}
