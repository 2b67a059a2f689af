package authority

import (
	"strings"
	"time"

	"patchbay/am/urn"
)

// Remove removes a member. Their slices remain. The aggregates of other sites accept their
// credentials until these expire.
func (a *Authority) Remove(name string, now time.Time) error {
	return a.store.update(func(t *tx) error {
		m, err := a.member(t, name)
		if err != nil {
			return err
		}
		var old []string
		for id, k := range all[Key](t, keys, &err) {
			if k.Member.Equal(m.URN) {
				old = append(old, id)
			}
		}
		for _, id := range old {
			if err == nil {
				err = remove(t, keys, id)
			}
		}
		if err != nil {
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
	err = a.store.view(func(t *tx) (err error) {
		nKeys, nSlices := map[string]int{}, map[string]int{}
		for _, k := range all[Key](t, keys, &err) {
			nKeys[k.Member.Key()]++
		}
		if err != nil {
			return err
		}
		for _, s := range all[Slice](t, sliceRecords, &err) {
			for _, m := range s.Members {
				if !s.isExpired(now) {
					nSlices[m.Member.Key()]++
				}
			}
		}
		if err != nil {
			return err
		}
		for key, m := range all[Member](t, members, &err) {
			if removed || m.Removed.IsZero() {
				list = append(list, Listed{m, nKeys[key], nSlices[key], !a.HasKey(m.URN.Name)})
			}
		}
		return err
	})
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
	err = a.store.view(func(t *tx) (err error) {
		for _, s := range all[Slice](t, sliceRecords, &err) {
			if !s.isExpired(now) {
				list = append(list, s.public())
			}
		}
		return err
	})
	return list, err
}

// Projects returns all projects in the order of their URNs.
func (a *Authority) Projects() (list []Group, err error) {
	err = a.store.view(func(t *tx) (err error) {
		for _, p := range all[Project](t, projects, &err) {
			list = append(list, p.public())
		}
		return err
	})
	return list, err
}

func (g *group) public() Group { return Group{g.URN, g.Description, g.Created, g.Expires, g.Members} }

// SetRole changes the role of a member in a slice. An empty role removes the member. Unlike the
// calls of members, it needs no role.
func (a *Authority) SetRole(slice, name string, role Role) error {
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
			s.Members = append(s.Members, Membership{m.URN, role})
		default:
			s.Members[i].Role = role
		}
		if !s.hasLead() {
			return refuse(Argument, "%s needs a member with the role LEAD; give it to another member first", u)
		}
		return put(t, sliceRecords, u.Key(), s)
	})
}
