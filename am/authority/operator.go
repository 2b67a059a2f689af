package authority

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Remove removes a member, and ends their sessions, links and feed. Their slices remain. The aggregates of
// other sites accept their credentials until these expire.
func (a *Authority) Remove(name string, now time.Time) error {
	return a.store.update(func(t *tx) error {
		m, err := a.member(t, name)
		if err != nil {
			return err
		}
		old, err := keysOf(t, m.URN)
		for _, k := range old {
			err = errors.Join(err, removeKey(t, k))
		}
		if err != nil {
			return err
		}
		if _, err := endAccess(t, m.URN.Key(), links, sessions, feeds); err != nil {
			return err
		}
		m.Removed = now.UTC()
		return put(t, members, m.URN.Key(), m)
	})
}

func (a *Authority) member(t *tx, name string) (Member, error) {
	u := urn.URN{Authority: a.URN().Authority, Type: urn.User, Name: name}
	m, ok, err := get[Member](t, members, u.Key())
	if err == nil && (!ok || !m.Removed.IsZero()) {
		err = refuse(Argument, "there is no member %s of %s", name, a.URN().Authority)
	}
	return m, err
}

// Listed describes a member for operators.
type Listed struct {
	Member
	Keys, Slices int
	// Invited means that the member has made their key elsewhere.
	Invited bool
}

// Members returns all members in the order of their names, and the removed ones if removed is true.
func (a *Authority) Members(removed bool, now time.Time) (list []Listed, err error) {
	nKeys, nSlices := map[string]int{}, map[string]int{}
	for _, k := range all[Key](a.store, keys, &err) {
		nKeys[k.Member.Key()]++
	}
	if err != nil {
		return nil, err
	}
	for _, s := range all[Slice](a.store, sliceRecords, &err) {
		for _, m := range s.Members {
			if !s.isExpired(now) {
				nSlices[m.Member.Key()]++
			}
		}
	}
	if err != nil {
		return nil, err
	}
	for key, m := range all[Member](a.store, members, &err) {
		if removed || m.Removed.IsZero() {
			list = append(list, Listed{m, nKeys[key], nSlices[key], !a.HasKey(m.URN.Name)})
		}
	}
	return list, err
}

// Group describes a slice or a project for operators.
type Group struct {
	URN         urn.URN
	Description string
	Created     time.Time
	Expires     time.Time // zero for never
	Members     []Membership
}

// Slices returns the slices that have not expired, in the order of their URNs.
func (a *Authority) Slices(now time.Time) (list []Group, err error) {
	for _, s := range all[Slice](a.store, sliceRecords, &err) {
		if !s.isExpired(now) {
			list = append(list, s.public())
		}
	}
	return list, err
}

// Projects returns all projects in the order of their URNs.
func (a *Authority) Projects() (list []Group, err error) {
	for _, p := range all[Project](a.store, projects, &err) {
		list = append(list, p.public())
	}
	return list, err
}

func (g *group) public() Group { return Group{g.URN, g.Description, g.Created, g.Expires, g.Members} }

// SetRole changes the role of a member in a slice. The role "" removes the member. Unlike the
// calls of members, it needs no role.
func (a *Authority) SetRole(slice, name string, role Role) error {
	if role != "" && !slices.Contains(Roles, role) {
		return refuse(Argument, "there is no role %q; the roles are LEAD, ADMIN, MEMBER, AUDITOR and none", role)
	}
	u := urn.URN{Authority: a.URN().Authority, Type: urn.Slice, Name: slice}
	if project, rest, ok := strings.Cut(slice, ":"); ok {
		u.Authority, u.Name = u.Authority+":"+project, rest
	}
	return a.store.update(func(t *tx) error {
		m, err := a.member(t, name)
		if err != nil {
			return err
		}
		s, ok, err := get[Slice](t, sliceRecords, u.Key())
		switch {
		case err != nil:
			return err
		case !ok:
			return refuse(Argument, "there is no slice %s", u)
		}
		i := s.index(m.URN)
		switch {
		case role == "" && i < 0:
			return refuse(Argument, "%s is no member of %s", name, u)
		case role == "":
			s.Members = append(s.Members[:i:i], s.Members[i+1:]...)
		case i < 0:
			s.Members = append(s.Members, Membership{Member: m.URN, Role: role, Accepted: true})
		default:
			s.Members[i].Role = role
		}
		if !s.hasLead(false) {
			return refuse(Argument, "%s needs a member with the role LEAD; give it to another member first", u)
		}
		return putSlice(t, s)
	})
}

// AddProject makes a member the LEAD of a project. It creates a missing project; then isNew is true.
func (a *Authority) AddProject(name, lead string, now time.Time) (isNew bool, err error) {
	if err := CheckProject(name); err != nil {
		return false, err
	}
	u := urn.URN{Authority: a.URN().Authority, Type: urn.Project, Name: name}
	err = a.store.update(func(t *tx) error {
		m, err := a.member(t, lead)
		if err != nil {
			return err
		}
		p, ok, err := get[Project](t, projects, u.Key())
		if err != nil {
			return err
		}
		if isNew = !ok; isNew {
			p = newProject(u, now)
			p.ByOperator = true
		}
		if i := p.index(m.URN); i >= 0 {
			p.Members[i] = Membership{Member: m.URN, Role: Lead, Accepted: true}
		} else {
			p.Members = append(p.Members, Membership{Member: m.URN, Role: Lead, Accepted: true})
		}
		return putProject(t, p)
	})
	return isNew, err
}

// AddMembers adds members to a project with a role, and returns how many were added. Members who are in the project
// keep their roles.
func (a *Authority) AddMembers(project string, names []string, role Role) (added int, err error) {
	if !slices.Contains(Roles, role) {
		return 0, refuse(Argument, "there is no role %q; the roles are LEAD, ADMIN, MEMBER and AUDITOR", role)
	}
	err = a.changeProject(project, func(t *tx, p Project) error {
		for _, name := range names {
			m, err := a.member(t, name)
			if err != nil {
				return err
			}
			if p.index(m.URN) < 0 {
				p.Members = append(p.Members, Membership{Member: m.URN, Role: role, Accepted: true, ByOperator: true})
				added++
			}
		}
		if len(p.Members) > maxGroup {
			return refuse(Argument, "%s would have %d members, more than %d", p.URN, len(p.Members), maxGroup)
		}
		return putProject(t, p)
	})
	return added, err
}

// SetRequest sets the request of a project, which its members start in a slice of their own. It returns false if the
// project keeps another one, which its teacher may have stored.
func (a *Authority) SetRequest(project string, text []byte) (isSet bool, err error) {
	err = a.changeProject(project, func(t *tx, p Project) error {
		if present := t.Bucket([]byte(requests)).Get([]byte(p.URN.Key())); present != nil {
			isSet = bytes.Equal(present, text)
			return nil
		}
		isSet = true
		return putRequest(t, p, string(text))
	})
	return isSet && err == nil, err
}

// changeProject passes a project to f in a transaction.
func (a *Authority) changeProject(name string, f func(*tx, Project) error) error {
	u := urn.URN{Authority: a.URN().Authority, Type: urn.Project, Name: name}
	return a.store.update(func(t *tx) error {
		p, ok, err := get[Project](t, projects, u.Key())
		switch {
		case err != nil:
			return err
		case !ok:
			return refuse(Argument, "there is no project %s of %s", name, a.URN().Authority)
		}
		return f(t, p)
	})
}

// RemoveProject removes a project whose slices have all expired.
func (a *Authority) RemoveProject(name string, now time.Time) error {
	return a.changeProject(name, func(t *tx, p Project) error {
		if err := checkUnused(t, p, now); err != nil {
			return err
		}
		return removeProject(t, p)
	})
}
