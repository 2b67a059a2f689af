package authority

import (
	"strings"
	"testing"

	"patchbay/am/api/xmlrpc"
)

// newClass makes the project lab1 with alice as LEAD. The operator has put bob into it.
func newClass(f *fixture) {
	_, err := f.AddProject("lab1", "alice", f.now)
	f.do(err)
	_, err = f.AddMembers("lab1", []string{"bob"}, PlainMember)
	f.do(err)
}

var lab1 = mustURN("urn:publicid:IDN+example.org+project+lab1")

// change is the options to change a member of a project.
func changeMember(kind, who string, r Role) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: kind, Value: []xmlrpc.Value{xmlrpc.Struct{{Name: "PROJECT_MEMBER", Value: userURN(who)}, {Name: "PROJECT_ROLE", Value: string(r)}}}}}
}

func (f *fixture) changeMember(caller, kind, who string, r Role) {
	f.t.Helper()
	f.must(caller, "/sa/2", "modify_membership", "PROJECT", lab1.String(), none, changeMember(kind, who, r))
}

// TestLinkFor checks for which students a teacher may make links.
func TestLinkFor(t *testing.T) {
	for _, x := range []struct {
		rule             string
		prepare          func(*fixture)
		teacher, student string
		says             string // "" if there is a link
	}{
		{"the LEAD, for a student of the operator", nil, "alice", "bob", ""},
		{"a student", nil, "bob", "bob", "no project"},
		{"somebody else", nil, "carol", "bob", "no project"},
		{"an ADMIN", func(f *fixture) { f.changeMember("alice", "members_to_add", "carol", Admin) }, "carol", "bob", "only the LEAD"},
		{"for a member whom the LEAD has added", func(f *fixture) { f.changeMember("alice", "members_to_add", "carol", PlainMember) }, "alice", "carol", "ask the operator"},
		{"for a student whom the LEAD has added again", func(f *fixture) {
			f.must("alice", "/sa/2", "modify_membership", "PROJECT", lab1.String(), none, xmlrpc.Struct{{Name: "members_to_remove", Value: []xmlrpc.Value{userURN("bob")}}})
			f.changeMember("alice", "members_to_add", "bob", PlainMember)
		}, "alice", "bob", "ask the operator"},
		{"for another LEAD", func(f *fixture) { _, err := f.AddProject("lab1", "bob", f.now); f.do(err) }, "alice", "bob", "ask the operator"},
		{"for a student who teaches elsewhere", func(f *fixture) { _, err := f.AddProject("lab2", "bob", f.now); f.do(err) }, "alice", "bob", "teaches a project"},
		{"for a removed student", func(f *fixture) { f.do(f.Remove("bob", f.now)) }, "alice", "bob", "no member"},
		{"for nobody of the project", nil, "alice", "carol", "ask the operator"},
		{"in a project that the LEAD has created", func(f *fixture) {
			f.do(f.RemoveProject("lab1", f.now))
			f.must("alice", "/sa/2", "create", "PROJECT", none, xmlrpc.Struct{{Name: "fields", Value: xmlrpc.Struct{{Name: "PROJECT_NAME", Value: "lab1"}}}})
			_, err := f.AddMembers("lab1", []string{"bob"}, PlainMember)
			f.do(err)
		}, "alice", "bob", "only the LEAD"},
	} {
		f := newFixture(t)
		newClass(f)
		if x.prepare != nil {
			x.prepare(f)
		}
		secret, _, err := f.LinkFor(mustURN(userURN(x.teacher)), mustURN(userURN(x.student)), lab1, f.now)
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.rule, err)
		}
		if err == nil {
			if v, err := f.ReadLink(secret, f.now); err != nil || v.Member.Name != x.student {
				t.Errorf("%s: %+v, %v", x.rule, v, err)
			}
		}
	}
}

// TestTeachersInSlices checks that those who teach a project of the operator are ADMIN of its new slices, and see them.
func TestTeachersInSlices(t *testing.T) {
	f := newFixture(t)
	newClass(f)
	f.changeMember("alice", "members_to_add", "carol", Admin)
	in := xmlrpc.Member{Name: "SLICE_PROJECT_URN", Value: lab1.String()}
	f.createSlice("bob", "exp", in)
	slice := mustURN("urn:publicid:IDN+example.org:lab1+slice+exp")
	for who, want := range map[string]Role{"bob": Lead, "alice": Admin, "carol": Admin} {
		if got, err := f.RoleIn(slice, mustURN(userURN(who))); got != want || err != nil {
			t.Errorf("%s has the role %q: %v", who, got, err)
		}
	}
	f.must("alice", "/sa/2", "get_credentials", slice.String(), none, xmlrpc.Struct{})
	f.signIn("bob")
	for _, who := range []string{"alice", "carol"} {
		c, err := f.Class(lab1, mustURN(userURN(who)), f.now)
		if err != nil || len(c.Students) != 1 || len(c.Students[0].Slices) != 1 || !c.Students[0].Slices[0].URN.Equal(slice) || c.Students[0].Sessions != 1 || !c.Students[0].Last.Equal(f.now) || c.CanLink != (who == "alice") || c.Students[0].CanLink != c.CanLink {
			t.Errorf("%s sees %+v: %v", who, c, err)
		}
	}
	if c, err := f.Class(lab1, mustURN(userURN("bob")), f.now); err == nil {
		t.Errorf("a student sees %+v", c)
	}
	f.must("carol", "/sa/2", "create", "PROJECT", none, xmlrpc.Struct{{Name: "fields", Value: xmlrpc.Struct{{Name: "PROJECT_NAME", Value: "own"}}}})
	own := "urn:publicid:IDN+example.org+project+own"
	f.must("carol", "/sa/2", "modify_membership", "PROJECT", own, none, changeMember("members_to_add", "bob", PlainMember))
	f.createSlice("bob", "exp2", xmlrpc.Member{Name: "SLICE_PROJECT_URN", Value: own})
	if got, err := f.RoleIn(mustURN("urn:publicid:IDN+example.org:own+slice+exp2"), mustURN(userURN("carol"))); got != "" || err != nil {
		t.Errorf("the LEAD of their own project has the role %q: %v", got, err)
	}
	for who, want := range map[string]int{"alice": 1, "carol": 2, "bob": 0} {
		if list, err := f.Classes(mustURN(userURN(who))); len(list) != want || err != nil {
			t.Errorf("%s teaches %v: %v", who, list, err)
		}
	}
	if by, err := f.SignIns(f.now); len(by) != 1 || by[mustURN(userURN("bob")).Key()].Sessions != 1 || err != nil {
		t.Errorf("sign-ins: %v, %v", by, err)
	}
}

// TestTeachersStayInSlices checks that a partner can neither lower nor remove a teacher, and that later teachers become partners.
func TestTeachersStayInSlices(t *testing.T) {
	slice := mustURN("urn:publicid:IDN+example.org:lab1+slice+exp")
	change := func(kind, who string, r Role) xmlrpc.Struct {
		return xmlrpc.Struct{{Name: kind, Value: []xmlrpc.Value{xmlrpc.Struct{{Name: "SLICE_MEMBER", Value: userURN(who)}, {Name: "SLICE_ROLE", Value: string(r)}}}}}
	}
	for _, x := range []struct {
		rule             string
		prepare          func(*fixture)
		who, kind, whose string
		role             Role
		want             Role // of whose, after the change
		isRefused        bool
	}{
		{"a student removes the teacher", nil, "bob", "members_to_remove", "alice", "", Admin, true},
		{"a student lowers the teacher", nil, "bob", "members_to_change", "alice", Auditor, Admin, true},
		{"the teacher leaves", nil, "alice", "members_to_remove", "alice", "", Admin, true},
		{"a student raises the teacher", nil, "bob", "members_to_change", "alice", Lead, Lead, false},
		{"a student removes a partner", func(f *fixture) {
			f.must("bob", "/sa/2", "modify_membership", "SLICE", slice.String(), none, change("members_to_add", "carol", Admin))
		}, "bob", "members_to_remove", "carol", "", "", false},
		{"a student removes who no longer teaches", func(f *fixture) {
			f.changeMember("alice", "members_to_add", "carol", Admin)
			f.changeMember("alice", "members_to_change", "carol", Auditor)
		}, "bob", "members_to_remove", "carol", "", "", false},
		{"a later LEAD of the operator", func(f *fixture) { _, err := f.AddProject("lab1", "carol", f.now); f.do(err) }, "bob", "members_to_remove", "carol", "", Admin, true},
		{"a later ADMIN of the operator", func(f *fixture) { _, err := f.AddMembers("lab1", []string{"carol"}, Admin); f.do(err) }, "bob", "members_to_remove", "carol", "", Admin, true},
		{"a later ADMIN of the LEAD", func(f *fixture) { f.changeMember("alice", "members_to_add", "carol", Admin) }, "bob", "members_to_remove", "carol", "", Admin, true},
		{"a partner who teaches later", func(f *fixture) {
			f.must("bob", "/sa/2", "modify_membership", "SLICE", slice.String(), none, change("members_to_add", "carol", Auditor))
			f.changeMember("alice", "members_to_add", "carol", Admin)
		}, "bob", "members_to_change", "carol", PlainMember, Admin, true},
	} {
		f := newFixture(t)
		newClass(f)
		f.createSlice("bob", "exp", xmlrpc.Member{Name: "SLICE_PROJECT_URN", Value: lab1.String()})
		if x.prepare != nil {
			x.prepare(f)
		}
		options := change(x.kind, x.whose, x.role)
		if x.role == "" {
			options = xmlrpc.Struct{{Name: x.kind, Value: []xmlrpc.Value{userURN(x.whose)}}}
		}
		a := f.call(x.who, "/sa/2", "modify_membership", "SLICE", slice.String(), none, options)
		if isRefused := a.code == Authorization && strings.Contains(a.output, "teaches"); isRefused != x.isRefused || !isRefused && a.code != 0 {
			t.Errorf("%s: %d %s", x.rule, a.code, a.output)
		}
		if role, err := f.RoleIn(slice, mustURN(userURN(x.whose))); role != x.want || err != nil {
			t.Errorf("%s: the role is %q, %v", x.rule, role, err)
		}
	}
}
