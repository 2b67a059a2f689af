package authority

import (
	"errors"
	"math"
	"time"

	"patchbay/am/urn"
)

// Class is a project, as those who teach it see it: its members with the role LEAD or ADMIN.
type Class struct {
	Group
	// Request is the request that each member starts in a slice of their own; empty if there is none.
	Request []byte
	// CanLink reports whether the teacher may make links for students; see LinkFor.
	CanLink  bool
	Students []Student // the members with the role MEMBER
}

// Student is a member of a class.
type Student struct {
	Member
	// CanLink reports whether LinkFor makes a link for them, and HasKey whether they have an SSH key.
	CanLink, HasKey bool
	// Slices are their slices in the project that have not expired.
	Slices []Group
	SignIns
}

// SignIns describes the sessions of a member.
type SignIns struct {
	Sessions int       // that have not ended
	Last     time.Time // when the last of them began; zero for none, and of a student, also of one that has ended
}

func (s *SignIns) add(x access) {
	if s.Sessions++; x.Created.After(s.Last) {
		s.Last = x.Created
	}
}

// isTeacher reports whether a role in a project makes its holder see the project as a class.
func isTeacher(r Role) bool { return r == Lead || r == Admin }

// addTeachers makes those who teach the project ADMIN of its slice s, which the caller must write, so that they see
// and help its nodes. They get no role in the projects of members, or when they have too many memberships.
func (s *Slice) addTeachers(t *tx, p Project) {
	for _, m := range p.Members {
		if !p.ByOperator || !isTeacher(m.Role) || isTeacher(s.roleOf(m.Member)) {
			continue
		}
		if i := s.index(m.Member); i >= 0 {
			s.Members[i].Role = Admin
		} else if len(following(t, memberships, maxMemberships, m.Member.Key())) < maxMemberships {
			s.Members = append(s.Members, Membership{Member: m.Member, Role: Admin})
		}
	}
}

// keepTeacher refuses to take the role LEAD or ADMIN in a slice from a member who teaches its project.
func keepTeacher(t *tx, slice, member urn.URN) error {
	s, _, err := get[Slice](t, sliceRecords, slice.Key())
	if err != nil {
		return err
	}
	p, _, err := get[Project](t, projects, s.Project.Key())
	if err == nil && p.ByOperator && isTeacher(p.roleOf(member)) {
		err = refuse(Authorization, "%s teaches %s, and stays a partner with LEAD or ADMIN", member.Name, p.URN.Name)
	}
	return err
}

// Classes returns the projects that a member teaches, in the order of their URNs.
func (a *Authority) Classes(teacher urn.URN) (list []urn.URN, err error) {
	err = a.store.view(func(t *tx) error {
		for _, key := range groupsOf(t, teacher, projects) {
			role, _ := roleIn(t, teacher, key)
			if u, err := urn.Parse(key); err == nil && isTeacher(role) {
				list = append(list, u)
			}
		}
		return nil
	})
	return list, err
}

// Class returns a project for a member who teaches it. It fails with Authorization for others, also if there
// is no such project.
func (a *Authority) Class(project, teacher urn.URN, now time.Time) (c Class, err error) {
	err = a.store.view(func(t *tx) error {
		p, err := taught(t, project, teacher)
		if err != nil {
			return err
		}
		c = Class{Group: p.public(), CanLink: p.ByOperator && p.roleOf(teacher) == Lead}
		led := map[string][]Group{} // by member
		for _, key := range following(t, slicesOfProject, math.MaxInt, p.URN.Key()) {
			s, _, err := get[Slice](t, sliceRecords, key)
			if err != nil {
				return err
			}
			for _, m := range s.Members {
				if m.Role == Lead && !s.isExpired(now) {
					led[m.Member.Key()] = append(led[m.Member.Key()], s.public())
				}
			}
		}
		for _, m := range p.Members {
			if m.Role != PlainMember {
				continue
			}
			s := Student{CanLink: c.CanLink && canGetLink(t, p, m.Member) == nil, HasKey: len(following(t, keysOfMember, 1, m.Member.Key())) > 0, Slices: led[m.Member.Key()]}
			if s.Member, _, err = get[Member](t, members, m.Member.Key()); err != nil {
				return err
			}
			err = eachSession(t, m.Member.Key(), func(_ string, x access) error {
				if now.Before(x.end()) {
					s.SignIns.add(x)
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, key := range following(t, accessOf, math.MaxInt, m.Member.Key(), string(links)) {
				x, _, err := get[access](t, links, key)
				if err != nil {
					return err
				}
				if x.Used.After(s.Last) {
					s.Last = x.Used
				}
			}
			if s.Removed.IsZero() || len(s.Slices) > 0 { // a removed student may still have nodes
				c.Students = append(c.Students, s)
			}
		}
		return nil
	})
	if err == nil {
		c.Request, err = a.requestOf(c.URN)
	}
	return c, err
}

// taught returns a project if the member teaches it.
func taught(t *tx, project, teacher urn.URN) (p Project, err error) {
	p, ok, err := get[Project](t, projects, project.Key())
	if err == nil && (!ok || !isTeacher(p.roleOf(teacher))) {
		err = refuse(Authorization, "there is no project %s that you teach", project)
	}
	return p, err
}

// LinkFor returns a link that signs a student in, for the LEAD of their project. A link is as good as the
// student's key, so the operator must have created the project and put the student into it as MEMBER. It
// refuses a student who teaches a project. It ends the earlier link of the student. Teachers mail it, so it lives as long as an invitation.
func (a *Authority) LinkFor(teacher, student, project urn.URN, now time.Time) (secret string, ends time.Time, err error) {
	return a.newLink(InvitationLife, now, func(t *tx) (x access, err error) {
		p, err := taught(t, project, teacher)
		switch {
		case err != nil:
			return x, err
		case !p.ByOperator || p.roleOf(teacher) != Lead:
			return x, refuse(Authorization, "only the LEAD of a project that an operator has created makes links for its members; ask the operator")
		}
		return access{Member: student}, canGetLink(t, p, student)
	})
}

// canGetLink returns an error unless the LEAD of the project may make links for a member.
func canGetLink(t *tx, p Project, student urn.URN) error {
	i := p.index(student)
	if i < 0 || p.Members[i].Role != PlainMember || !p.Members[i].ByOperator {
		return refuse(Authorization, "%s is no MEMBER of %s by an operator; ask the operator for a link", student.Name, p.URN)
	}
	if ok, err := isPresent(t, access{Member: student}); err != nil || !ok {
		return errors.Join(err, refuse(Argument, "there is no member %s", student))
	}
	for _, key := range groupsOf(t, student, projects) {
		if role, _ := roleIn(t, student, key); isTeacher(role) {
			return refuse(Authorization, "%s teaches a project; ask the operator for a link", student.Name)
		}
	}
	return nil
}

// SignIns returns the sessions of all members by the keys of their URNs, for operators.
func (a *Authority) SignIns(now time.Time) (by map[string]SignIns, err error) {
	by = map[string]SignIns{}
	for _, x := range all[access](a.store, sessions, &err) {
		if x.Operator == "" && now.Before(x.end()) {
			s := by[x.Member.Key()]
			s.add(x)
			by[x.Member.Key()] = s
		}
	}
	return by, err
}
