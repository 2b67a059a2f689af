package authority

import (
	"slices"
	"time"

	"patchbay/am/urn"
)

// Member is a user of the authority. The record of a removed member remains, so that nobody else
// gets the name.
type Member struct {
	URN       urn.URN
	UID       string
	FirstName string    `json:",omitempty"`
	LastName  string    `json:",omitempty"`
	Email     string    `json:",omitempty"`
	Created   time.Time `json:",omitzero"`
	Removed   time.Time `json:",omitzero"`
}

// Key is a public SSH key of a member.
type Key struct {
	ID          string
	Member      urn.URN
	Type        string
	Public      string
	Description string `json:",omitempty"`
	Created     time.Time
	// ByCommand means that the operator's command "patchbay user" wrote the key, and replaces it.
	ByCommand bool `json:",omitempty"`
}

// Role is the role of a member in a slice or a project.
type Role string

// Roles, as in omni.
const (
	Lead        Role = "LEAD"
	Admin       Role = "ADMIN"
	PlainMember Role = "MEMBER"
	Auditor     Role = "AUDITOR"
)

// Roles are all roles.
var Roles = []Role{Lead, Admin, PlainMember, Auditor}

// privileges are the privileges of slice credentials. Only LEAD and ADMIN have embed, which
// Shutdown needs.
var privileges = map[Role][]string{
	Lead:        {"refresh", "embed", "bind", "control", "info"},
	Admin:       {"refresh", "embed", "bind", "control", "info"},
	PlainMember: {"refresh", "bind", "control", "info"},
	Auditor:     {"info", "resolve"},
}

// Membership is one member of a slice or a project.
type Membership struct {
	Member urn.URN
	Role   Role
	// Accepted means that the member has created the slice or project or worked in it, or that an
	// operator has added them. The other members see the name and email of such a member.
	Accepted bool `json:",omitempty"`
	// ByOperator means that an operator has put the member into a project. Then the LEAD of the project can sign
	// them in; see Authority.LinkFor.
	ByOperator bool `json:",omitempty"`
}

// group holds the fields that slices and projects share.
type group struct {
	URN         urn.URN
	UID         string
	Description string `json:",omitempty"`
	Created     time.Time
	// Expires is zero for a project that does not expire.
	Expires time.Time `json:",omitzero"`
	Members []Membership
}

func (g *group) isExpired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// roleOf returns "" if u is no member.
func (g *group) roleOf(u urn.URN) Role {
	if i := g.index(u); i >= 0 {
		return g.Members[i].Role
	}
	return ""
}

func (g *group) index(u urn.URN) int {
	return slices.IndexFunc(g.Members, func(m Membership) bool { return m.Member.Equal(u) })
}

// accept marks a membership as accepted. It returns false if it is already.
func (g *group) accept(u urn.URN) bool {
	i := g.index(u)
	if i < 0 || g.Members[i].Accepted {
		return false
	}
	g.Members[i].Accepted = true
	return true
}

// hasLead reports whether the group has a LEAD, or one who has accepted it.
func (g *group) hasLead(accepted bool) bool {
	return slices.ContainsFunc(g.Members, func(m Membership) bool { return m.Role == Lead && (m.Accepted || !accepted) })
}

// Slice is a slice. Its certificate is a record of its own.
type Slice struct {
	group
	// Project is zero for a slice without a project.
	Project urn.URN `json:",omitzero"`
}

// Project is a group of members whose slices share a name space.
type Project struct {
	group
	// ByOperator means that an operator has created the project. Its LEAD sees the name and email
	// of all members.
	ByOperator bool `json:",omitempty"`
}

// SliverInfo is what a client has reported about a sliver at another aggregate.
type SliverInfo struct {
	URN, Slice, Aggregate, Creator urn.URN
	Created                        time.Time
	Expires                        time.Time `json:",omitzero"`
}

// Invitation lets one person become the member with the name.
type Invitation struct {
	Name    string
	Created time.Time
	Expires time.Time
	// Key is the SHA-256 of the key that has used the invitation; empty before.
	Key string `json:",omitempty"`
}
