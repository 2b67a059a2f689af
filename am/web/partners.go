package web

import (
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/urn"
)

// partnerRole is a role in a slice, and what it means.
type partnerRole struct {
	Role  authority.Role
	Means string
}

// Roles returns the roles that the form offers.
func (experimentBody) Roles() []partnerRole {
	return []partnerRole{{authority.PlainMember, "works in it, and can also end it"}, {authority.Admin, "works in it, can end it, and changes partners"}, {authority.Auditor, "only sees it"}}
}

// partnerChanges are the options of modify_membership by the values of do, and what the notices say.
var partnerChanges = map[string]struct{ option, done, failed string }{
	"add":    {"members_to_add", " is a partner now", " was not added"},
	"change": {"members_to_change", " has the new role", " does not get the role"},
	"remove": {"members_to_remove", " is no partner any more", " was not removed"},
}

// changePartners adds a partner, changes their role or removes them. The authority decides who may do that. Then it gives the
// partner an account on the nodes, or removes the account of one who may only look.
func (q *request) changePartners(s sliceRecord) error {
	do := q.r.FormValue("do")
	change, ok := partnerChanges[do]
	if !ok {
		return badRequest("There is no such change of partners.")
	}
	name, role := strings.TrimSpace(q.r.FormValue("member")), authority.Role(q.r.FormValue("role"))
	member := urn.URN{Authority: q.Authority.URN().Authority, Type: urn.User, Name: name}
	var entry xmlrpc.Value = xmlrpc.Struct{{Name: "SLICE_MEMBER", Value: member.String()}, {Name: "SLICE_ROLE", Value: string(role)}}
	if do == "remove" {
		entry, role = member.String(), authority.Auditor
	}
	if _, err := q.authorityCall("sa", "modify_membership", "SLICE", s.URN.String(), xmlrpc.Struct{{Name: change.option, Value: []xmlrpc.Value{entry}}}); err != nil {
		return q.renderExperiment(s, experimentBody{Member: name, PartnerProblem: name + change.failed + ": " + errorText(err) + "."})
	}
	notices := []notice{done("%s%s.", name, change.done)}
	switch {
	case do == "remove" && member.Equal(q.visitor.Member):
		return q.redirect("/ui/mine", done("You have left %s.", s.URN.Name))
	case do == "add" && role == authority.Auditor:
		return q.redirect(s.Path(), notices...)
	}
	user := client.User{URN: member.String()} // without keys
	if role != authority.Auditor {
		users, err := q.usersOf(s.URN)
		i := slices.IndexFunc(users, func(u client.User) bool { return u.URN == user.URN })
		if err != nil || i < 0 {
			return q.redirect(s.Path(), append(notices, notice{true, name + " has no SSH key yet. When they have added one, choose Update SSH keys."})...)
		}
		user = users[i]
	}
	o, err := q.open(s)
	if err != nil {
		return err
	}
	all, err := o.status(q)
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(slices.Clone(all), func(v client.Sliver) bool { // the others cannot change their accounts now
		return v.Operational != string(am.Ready) && v.Operational != string(am.Configuring)
	})
	if len(list) < len(all) {
		notices = append(notices, done("For the other nodes, choose Update SSH keys when they are ready."))
	}
	if len(list) > 0 {
		notices = append(notices, q.perform(o, actions["keys"], list, []client.User{user})...)
	}
	return q.redirect(s.Path(), notices...)
}
