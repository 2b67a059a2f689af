package authority

import (
	"strings"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
)

// group returns the group of argument U and a function that writes it. Only slices and projects
// have members.
func (c *call) group(t *tx, action string) (g *group, write func() error, err error) {
	switch c.object {
	case &sliceObject:
		s, err := c.slice(t, c.target, action)
		return &s.group, func() error { return putSlice(t, s) }, err
	case &projectObject:
		p, err := c.project(t, c.target, action)
		return &p.group, func() error { return putProject(t, p) }, err
	}
	return nil, nil, refuse(Argument, "%s has no members", c.object.name)
}

// lookupMembers answers with the members of a slice or a project and their roles.
func lookupMembers(c *call) (xmlrpc.Value, error) {
	prefix, list := c.object.name, []xmlrpc.Value{}
	var g *group
	var found snapshot
	err := c.view(func(t *tx) (err error) {
		if g, _, err = c.group(t, actMembers); err != nil {
			return err
		}
		for _, m := range g.Members {
			if err := found.add(t, members, m.Member.Key()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	uids := map[string]string{}
	for key, m := range each[Member](found, &err) {
		uids[key] = m.UID
	}
	for _, m := range g.Members {
		list = append(list, xmlrpc.Struct{
			{Name: prefix + "_MEMBER", Value: m.Member.String()}, {Name: prefix + "_ROLE", Value: string(m.Role)}, {Name: prefix + "_MEMBER_UID", Value: uids[m.Member.Key()]},
		})
	}
	return list, err
}

// lookupForMember answers with the slices or projects of a member and the member's roles.
func lookupForMember(c *call) (xmlrpc.Value, error) {
	u, err := parseURN("the member", c.target, urn.User)
	if err == nil {
		err = may(objectMember, actOfMember, selfIf(u.Equal(c.caller)), u)
	}
	if err != nil {
		return nil, err
	}
	match, err := c.object.readMatch(c.options)
	if err != nil {
		return nil, err
	}
	prefix, list := c.object.name, []xmlrpc.Value{}
	add := func(g *group, r row) {
		if role := g.roleOf(c.caller); role != "" && match.areMet(r) {
			list = append(list, xmlrpc.Struct{
				{Name: prefix + "_URN", Value: r.key}, {Name: prefix + "_UID", Value: g.UID}, {Name: prefix + "_ROLE", Value: string(role)},
				{Name: prefix + "_EXPIRED", Value: g.isExpired(c.now)}, {Name: "EXPIRED", Value: g.isExpired(c.now)},
			})
		}
	}
	switch c.object {
	case &sliceObject:
		for _, s := range each[Slice](c.groups(sliceRecords, &err), &err) {
			add(&s.group, rowOfSlice(s, c.now))
		}
	case &projectObject:
		for _, p := range each[Project](c.groups(projects, &err), &err) {
			add(&p.group, rowOfProject(p, c.now))
		}
	default:
		return nil, refuse(Argument, "%s has no members", c.object.name)
	}
	return list, err
}

// groups returns the slices, or the projects, of the caller.
func (c *call) groups(b bucket, err *error) (list snapshot) {
	*err = c.view(func(t *tx) error {
		for _, key := range groupsOf(t, c.caller, b) {
			if err := list.add(t, b, key); err != nil {
				return err
			}
		}
		return nil
	})
	return list
}

// membershipChange is one entry of the options of modify_membership. A change without role
// removes the member.
type membershipChange struct {
	member urn.URN
	role   Role
	add    bool
}

func modifyMembership(c *call) (xmlrpc.Value, error) {
	changes, err := c.readChanges()
	if err != nil {
		return nil, err
	}
	return nil, c.update(func(t *tx) error {
		action := actModify
		if len(changes) == 1 && changes[0].role == "" && changes[0].member.Equal(c.caller) {
			action = actLeave
		}
		g, write, err := c.group(t, action)
		if err != nil {
			return err
		}
		relations, wasLed := g.relationTo(c.caller), g.hasLead(true) // before the changes
		for _, x := range changes {
			if err := c.applyChange(t, g, x, relations); err != nil {
				return err
			}
		}
		switch {
		case !g.hasLead(false):
			return refuse(Argument, "%s needs a member with the role LEAD; give it to another member first", g.URN)
		case wasLed && !g.hasLead(true): // else a member could leave slices to others who know nothing of them
			return refuse(Argument, "%s needs a member with the role LEAD who has worked in it, for example has fetched its credential", g.URN)
		case len(g.Members) > maxGroup:
			return refuse(Argument, "%s has %d members, more than %d", g.URN, len(g.Members), maxGroup)
		}
		return write()
	})
}

func (c *call) readChanges() (changes []membershipChange, err error) {
	prefix := c.object.name
	for _, kind := range []string{"members_to_remove", "members_to_add", "members_to_change"} {
		v, ok := c.options.Get(kind)
		if !ok {
			continue
		}
		list, ok := v.([]xmlrpc.Value)
		if !ok || len(list) > maxMatched {
			return nil, refuse(Argument, "the option %s must be a list of at most %d members", kind, maxMatched)
		}
		for _, v := range list {
			x := membershipChange{add: kind == "members_to_add"}
			name, _ := xmlrpc.AsString(v)
			if s, ok := v.(xmlrpc.Struct); ok {
				f := fields{}
				for _, m := range s {
					f[m.Name] = m.Value
				}
				name = f.text(prefix + "_MEMBER")
				x.role = Role(strings.ToUpper(f.text(prefix + "_ROLE")))
			}
			if x.member, err = parseURN(prefix+"_MEMBER", name, urn.User); err != nil {
				return nil, err
			}
			if kind == "members_to_remove" {
				x.role = ""
			} else if relationOfRole[x.role] == 0 {
				return nil, refuse(Argument, "%s_ROLE is %q; the roles are LEAD, ADMIN, MEMBER and AUDITOR", prefix, display.Cut(string(x.role), 80))
			}
			changes = append(changes, x)
		}
	}
	if len(changes) == 0 {
		return nil, refuse(Argument, "one of the options members_to_add, members_to_change and members_to_remove is needed")
	}
	return changes, nil
}

// applyChange makes one change of the members of g, which the caller must write. relations are
// those of the calling member to g before all changes.
func (c *call) applyChange(t *tx, g *group, x membershipChange, relations relation) error {
	i := g.index(x.member)
	if x.role == Lead || i >= 0 && g.Members[i].Role == Lead {
		action := actModifyLead
		if x.role == "" && x.member.Equal(c.caller) {
			action = actLeave
		}
		if err := may(c.object.name, action, relations, g.URN); err != nil {
			return err
		}
	}
	if i >= 0 && !isTeacher(x.role) {
		if err := keepTeacher(t, g.URN, x.member); err != nil {
			return err
		}
	}
	switch {
	case x.add && i >= 0 && g.Members[i].Role != x.role:
		return refuse(Duplicate, "%s is a member already, with the role %s; use members_to_change", x.member, g.Members[i].Role)
	case x.add && i >= 0:
		return nil
	case !x.add && i < 0:
		return refuse(Argument, "%s is no member of %s", x.member, g.URN)
	case x.role == "":
		g.Members = append(g.Members[:i:i], g.Members[i+1:]...)
		return nil
	case i >= 0:
		g.Members[i].Role = x.role
		return nil
	}
	m, ok, err := get[Member](t, members, x.member.Key())
	switch {
	case err != nil:
		return err
	case !ok || !m.Removed.IsZero():
		return unknown("member urn", x.member)
	case len(following(t, memberships, maxMemberships, m.URN.Key())) == maxMemberships:
		return refuse(Argument, "%s is in %d slices and projects, the limit; they must leave one first", m.URN, maxMemberships)
	}
	g.Members = append(g.Members, Membership{Member: m.URN, Role: x.role})
	return nil
}
