package authority

import (
	"strings"

	"patchbay/am/urn"
)

// relation is what a caller is to an object. Several relations are a sum.
type relation int

const (
	anyMember relation = 1 << iota
	self
	lead
	admin
	plainMember
	auditor
	projectLead
	projectAdmin
	shares

	everyRole = lead | admin | plainMember | auditor
)

var relationNames = []struct {
	relation
	name string
}{
	{anyMember, "every member"}, {self, "the member themselves"},
	{lead, "LEAD"}, {admin, "ADMIN"}, {plainMember, "MEMBER"}, {auditor, "AUDITOR"},
	{projectLead, "LEAD of the project"}, {projectAdmin, "ADMIN of the project"}, {shares, "those who share a slice or a project that the member has accepted"},
}

func (r relation) String() string {
	var names []string
	for _, x := range relationNames {
		if r&x.relation != 0 {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, ", ")
}

// Actions of the table of rights.
const (
	actCreate     = "create"
	actLookup     = "lookup"
	actUpdate     = "update"
	actDelete     = "delete"
	actCredential = "get a credential"
	actMembers    = "look up members"
	actModify     = "modify members"
	actModifyLead = "give or take the role LEAD"
	actLeave      = "leave"
	actIdentity   = "look up name and email"
	actOfMember   = "look up the slices or projects of a member"
)

// right is a row of the table of rights.
type right struct {
	Object, Action string
	Who            relation
}

// rights says who may do what. What is not in the table is not allowed.
var rights = []right{
	{objectMember, actLookup, anyMember},
	{objectMember, actIdentity, self | shares},
	{objectMember, actUpdate, self},
	{objectMember, actCredential, self},
	{objectMember, actOfMember, self},
	{objectKey, actLookup, anyMember},
	{objectKey, actCreate, self},
	{objectKey, actUpdate, self},
	{objectKey, actDelete, self},
	{objectSlice, actCreate, anyMember},
	{objectSlice, actLookup, everyRole | projectLead | projectAdmin},
	{objectSlice, actUpdate, lead | admin | plainMember},
	{objectSlice, actCredential, everyRole},
	{objectSlice, actMembers, everyRole | projectLead | projectAdmin},
	{objectSlice, actModify, lead | admin},
	{objectSlice, actModifyLead, lead},
	{objectSlice, actLeave, everyRole},
	{objectSliverInfo, actLookup, everyRole},
	{objectSliverInfo, actCreate, lead | admin | plainMember},
	{objectSliverInfo, actUpdate, lead | admin | plainMember},
	{objectSliverInfo, actDelete, lead | admin | plainMember},
	{objectProject, actCreate, anyMember},
	{objectProject, actLookup, everyRole},
	{objectProject, actUpdate, lead | admin},
	{objectProject, actDelete, lead},
	{objectProject, actMembers, everyRole},
	{objectProject, actModify, lead | admin},
	{objectProject, actModifyLead, lead},
	{objectProject, actLeave, everyRole},
	{objectProject, actSlices, lead | admin | plainMember},
}

// actSlices creates a slice in a project.
const actSlices = "create slices in it"

func whoMay(object, action string) relation {
	for _, r := range rights {
		if r.Object == object && r.Action == action {
			return r.Who
		}
	}
	return 0
}

// may returns an error unless one of the caller's relations to the object has the right.
func may(object, action string, is relation, what urn.URN) error {
	if who := whoMay(object, action); (is|anyMember)&who == 0 {
		return refuse(Authorization, "%s %s: you may not %s; allowed: %s", object, what, action, who)
	}
	return nil
}

var relationOfRole = map[Role]relation{Lead: lead, Admin: admin, PlainMember: plainMember, Auditor: auditor}

var relationOfProjectRole = map[Role]relation{Lead: projectLead, Admin: projectAdmin}

// relationTo returns the caller's relations to a group.
func (g *group) relationTo(u urn.URN) relation { return relationOfRole[g.roleOf(u)] }

// relationTo returns the caller's relations to the slice, and to its project.
func (s *Slice) relationTo(t *tx, u urn.URN) relation {
	is := s.group.relationTo(u)
	if !s.Project.IsZero() {
		role, _ := roleIn(t, u, s.Project.Key())
		is |= relationOfProjectRole[role]
	}
	return is
}
