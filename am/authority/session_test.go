package authority

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
)

// newLink returns a link of a member; the operator's name has the prefix @.
func (f *fixture) newLink(who string) string {
	f.t.Helper()
	var secret string
	var err error
	if operator, ok := strings.CutPrefix(who, "@"); ok {
		secret, _, err = f.NewOperatorLink(operator, f.now)
	} else {
		secret, _, err = f.NewLink(who, LinkLife, f.now)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return secret
}

// signIn returns the session of a member or an operator.
func (f *fixture) signIn(who string) string {
	f.t.Helper()
	session, _, err := f.UseLink(f.newLink(who), f.now)
	if err != nil {
		f.t.Fatal(err)
	}
	return session
}

func (f *fixture) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// has reports whether a session goes on.
func (f *fixture) has(session string) bool {
	f.t.Helper()
	_, ok, err := f.Session(session, f.now)
	f.do(err)
	return ok
}

func TestLinks(t *testing.T) {
	for _, x := range []struct {
		rule string
		link func(*fixture) string
		says string // "" if the link works
	}{
		{"a new link", func(f *fixture) string { return f.newLink("alice") }, ""},
		{"a link of an operator", func(f *fixture) string { return f.newLink("@root") }, ""},
		{"before its end", func(f *fixture) string { s := f.newLink("alice"); f.now = f.now.Add(LinkLife - time.Second); return s }, ""},
		{"at its end", func(f *fixture) string { s := f.newLink("alice"); f.now = f.now.Add(LinkLife); return s }, "expired at"},
		{"read but not used", func(f *fixture) string {
			s := f.newLink("alice")
			_, err := f.ReadLink(s, f.now)
			f.do(err)
			return s
		}, ""},
		{"used", func(f *fixture) string {
			s := f.newLink("alice")
			_, _, err := f.UseLink(s, f.now)
			f.do(err)
			return s
		}, "was used at"},
		{"replaced by a later link", func(f *fixture) string { s := f.newLink("alice"); f.newLink("alice"); return s }, "unknown"},
		{"a later link of another member", func(f *fixture) string { s := f.newLink("alice"); f.newLink("bob"); return s }, ""},
		{"replaced by a later link of the same operator", func(f *fixture) string { s := f.newLink("@root"); f.newLink("@root"); return s }, "unknown"},
		{"a later link of another operator", func(f *fixture) string { s := f.newLink("@root"); f.newLink("@bob"); return s }, ""},
		{"of another site", func(f *fixture) string { s, _ := newSecret(); return s }, "unknown"},
		{"empty", func(*fixture) string { return "" }, "unknown"},
		{"the member was removed", func(f *fixture) string { s := f.newLink("alice"); f.do(f.Remove("alice", f.now)); return s }, "unknown"},
		{"the member was signed out", func(f *fixture) string {
			s := f.newLink("alice")
			_, err := f.SignOut("alice")
			f.do(err)
			return s
		}, "unknown"},
		{"operators were signed out", func(f *fixture) string {
			s := f.newLink("@root")
			_, err := f.SignOutOperators()
			f.do(err)
			return s
		}, "unknown"},
		{"a session is no link", func(f *fixture) string { return f.signIn("alice") }, "unknown"},
		{"after a restart", func(f *fixture) string { s := f.newLink("alice"); f.open(); return s }, ""},
	} {
		f := newFixture(t)
		link := x.link(f)
		for _, use := range []func() (Visitor, error){
			func() (Visitor, error) { return f.ReadLink(link, f.now) },
			func() (Visitor, error) { _, v, err := f.UseLink(link, f.now); return v, err },
		} {
			v, err := use()
			switch {
			case (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says):
				t.Errorf("%s: %v", x.rule, err)
			case err != nil && !strings.Contains(err.Error(), "ask your teacher or the operator of this site"):
				t.Errorf("%s: %v names no remedy", x.rule, err)
			case err == nil && v.Member.Name == "" && v.Operator == "":
				t.Errorf("%s: nobody signs in", x.rule)
			}
		}
	}
	f := newFixture(t)
	f.do(f.Remove("bob", f.now))
	for _, name := range []string{"bob", "nobody", ""} {
		if _, _, err := f.NewLink(name, LinkLife, f.now); err == nil {
			t.Errorf("%q has a link", name)
		}
	}
	for _, operator := range []string{"", "a\x00b"} {
		if _, _, err := f.NewOperatorLink(operator, f.now); err == nil {
			t.Errorf("the operator %q has a link", operator)
		}
	}
}

func TestSessions(t *testing.T) {
	const step = SessionIdle - time.Minute
	for _, x := range []struct {
		rule, who string
		change    func(f *fixture, session string)
		want      bool
	}{
		{"new", "alice", func(*fixture, string) {}, true},
		{"of an operator", "@root", func(*fixture, string) {}, true},
		{"after a restart", "alice", func(f *fixture, _ string) { f.open() }, true},
		{"used in time", "alice", func(f *fixture, s string) {
			for range 3 {
				f.now = f.now.Add(step)
				f.has(s)
			}
		}, true},
		{"idle too long", "alice", func(f *fixture, s string) { f.now = f.now.Add(SessionIdle) }, false},
		{"longer than the longest life", "alice", func(f *fixture, s string) {
			for range SessionLife/step + 1 {
				f.now = f.now.Add(step)
				f.has(s)
			}
		}, false},
		{"ended", "alice", func(f *fixture, s string) { f.do(f.EndSession(s)) }, false},
		{"another one ended", "alice", func(f *fixture, _ string) { f.do(f.EndSession(f.signIn("alice"))) }, true},
		{"signed out", "alice", func(f *fixture, _ string) {
			f.signIn("alice")
			if n, err := f.SignOut("alice"); n != 2 || err != nil {
				f.t.Errorf("%d sessions ended: %v", n, err)
			}
		}, false},
		{"another member signed out", "alice", func(f *fixture, _ string) { f.signIn("bob"); _, err := f.SignOut("bob"); f.do(err) }, true},
		{"operators signed out", "@root", func(f *fixture, _ string) {
			f.signIn("@bob")
			if n, err := f.SignOutOperators(); n != 2 || err != nil {
				f.t.Errorf("%d sessions ended: %v", n, err)
			}
		}, false},
		{"a member, and operators signed out", "alice", func(f *fixture, _ string) { _, err := f.SignOutOperators(); f.do(err) }, true},
		{"an operator, and the member of that name signed out", "@alice", func(f *fixture, _ string) { _, err := f.SignOut("alice"); f.do(err) }, true},
		{"the member was removed", "alice", func(f *fixture, _ string) { f.do(f.Remove("alice", f.now)) }, false},
		{"all ended", "alice", func(f *fixture, _ string) { f.do(f.EndSessionsAndLinks()) }, false},
		{"one more link", "alice", func(f *fixture, _ string) { f.newLink("alice") }, true},
		{"the most sessions", "alice", func(f *fixture, s string) {
			for range maxSessions - 1 {
				f.now = f.now.Add(time.Second)
				f.signIn("alice")
			}
		}, true},
		{"too many sessions", "alice", func(f *fixture, s string) {
			for range maxSessions {
				f.now = f.now.Add(time.Second)
				f.signIn("alice")
			}
		}, false},
	} {
		f := newFixture(t)
		session := f.signIn(x.who)
		x.change(f, session)
		if got := f.has(session); got != x.want {
			t.Errorf("%s: goes on: %t", x.rule, got)
		}
	}
	f := newFixture(t)
	for _, wrong := range []string{"", f.newLink("alice"), secretKey(f.signIn("alice"))} {
		if f.has(wrong) {
			t.Errorf("%q is a session", wrong)
		}
	}
}

// TestVisitors checks what pages show of a session, and that the database does not have its secret.
func TestVisitors(t *testing.T) {
	f := newFixture(t)
	link := f.newLink("alice")
	session, v, err := f.UseLink(link, f.now)
	f.do(err)
	if v.Member != mustURN(userURN("alice")) || !v.SignedIn.Equal(today) || !v.Ends.Equal(today.Add(SessionIdle)) || v.ID == "" {
		t.Errorf("a new session: %+v", v)
	}
	f.now = f.now.Add(time.Hour)
	f.has(session)
	f.signIn("alice")
	f.signIn("bob")
	list, err := f.SessionsOf(v.Member, f.now)
	if err != nil || len(list) != 2 || list[0].ID != v.ID || !list[0].LastUse.Equal(f.now) || !list[0].SignedIn.Equal(today) {
		t.Errorf("the sessions: %+v, %v", list, err)
	}
	f.now = f.now.Add(SessionLife)
	f.signIn("alice") // removes those that have ended
	var kept int
	f.do(f.store.view(func(t *tx) error { kept = count(t, sessions); return nil }))
	if list, err := f.SessionsOf(v.Member, f.now); err != nil || len(list) != 1 || kept != 2 {
		t.Errorf("%d sessions of %d records: %v", len(list), kept, err)
	}
	var text bytes.Buffer
	f.do(f.Backup(&text))
	for what, secret := range map[string]string{"the link": link, "the session": session} {
		if bytes.Contains(text.Bytes(), []byte(secret)) {
			t.Errorf("the database has the secret of %s", what)
		}
	}
	chain, err := f.CertificateChain(v.Member)
	if err != nil || len(chain) < 2 || !bytes.Equal(chain[0], f.chain("alice")[0]) {
		t.Errorf("a chain of %d certificates: %v", len(chain), err)
	}
	f.do(f.Remove("alice", f.now))
	if _, err := f.CertificateChain(v.Member); err == nil {
		t.Error("a removed member has a certificate")
	}
}

// TestEarlierDatabases opens a database without the buckets of sessions and requests, and restores a backup of it,
// and one with sessions.
func TestEarlierDatabases(t *testing.T) {
	f := newFixture(t)
	restore := func(name string) {
		t.Helper()
		var backup bytes.Buffer
		f.do(f.Backup(&backup))
		file := filepath.Join(f.dir, name)
		f.do(os.WriteFile(file, backup.Bytes(), 0o600))
		f.do(f.Close())
		_, err := Restore(f.dir, file, f.now)
		f.do(err)
		f.Authority, err = Open(f.dir, filepath.Join(f.dir, "example.org"))
		f.do(err)
	}
	session, link := f.signIn("alice"), f.newLink("bob")
	restore("with sessions")
	if _, err := f.ReadLink(link, f.now); err == nil || f.has(session) {
		t.Errorf("after a restore, a session or a link (%v) goes on", err)
	}
	f.do(f.store.update(func(t *tx) error {
		for _, b := range append(accesses, requests) {
			if err := t.DeleteBucket([]byte(b)); err != nil {
				return err
			}
		}
		return nil
	}))
	restore("of an earlier version")
	if !f.has(f.signIn("alice")) {
		t.Error("the database of an earlier version has no sessions")
	}
	if entries, err := filepath.Glob(filepath.Join(f.dir, "*.restoring")); err != nil || len(entries) > 0 {
		t.Errorf("unfinished files: %v, %v", entries, err)
	}
}

func TestLinkByCall(t *testing.T) {
	f := newFixture(t)
	pages := ""
	f.Service.config.PagesURL = func() string { return pages }
	for _, x := range []struct {
		rule, who, pages string
		want             Code
	}{
		{"a member", "alice", "https://am.example.org:8445", None},
		{"no pages", "alice", "", NotImplemented},
		{"no certificate", "nobody", "https://am.example.org:8445", Authentication},
		{"a member of another authority", "eve", "https://am.example.org:8445", Authentication},
		{"a tool", "portal", "https://am.example.org:8445", Authentication},
	} {
		pages = x.pages
		a := f.call(x.who, "/ma/2", "patchbay_link")
		if a.code != x.want {
			t.Errorf("%s: %d %s", x.rule, a.code, a.output)
		}
		if a.code != None {
			continue
		}
		url, _ := a.value.(xmlrpc.Struct).Get("url")
		secret, ok := strings.CutPrefix(url.(string), x.pages+SignInPath)
		if v, err := f.ReadLink(secret, f.now); !ok || err != nil || v.Member.Name != x.who {
			t.Errorf("%s: %s signs in %v: %v", x.rule, url, v.Member, err)
		}
	}
}

// TestRequestsOfProjects: LEAD and ADMIN set the request of a project, and its members read it.
func TestRequestsOfProjects(t *testing.T) {
	f := newFixture(t)
	const lab = "urn:publicid:IDN+example.org+project+lab1"
	_, err := f.AddProject("lab1", "alice", f.now)
	f.do(err)
	set := func(who, request string) answer {
		return f.call(who, "/sa/2", "update", "PROJECT", lab, none, options("fields", text(fieldRequest, request)))
	}
	read := func(who string) string {
		t.Helper()
		o := append(options("match", text("PROJECT_URN", lab)), text("filter", []xmlrpc.Value{fieldRequest}))
		found, _ := f.must(who, "/sa/2", "lookup", "PROJECT", none, o).(xmlrpc.Struct).Get(lab)
		values, _ := found.(xmlrpc.Struct)
		v, _ := values.Get(fieldRequest)
		s, _ := v.(string)
		return s
	}
	for _, x := range []struct {
		rule    string
		bob     Role
		request string
		want    Code
	}{
		{"a LEAD", Lead, "<rspec>\n\tä</rspec>", None},
		{"an ADMIN", Admin, "<rspec/>", None},
		{"a MEMBER", PlainMember, "<rspec>other</rspec>", Authorization},
		{"an AUDITOR", Auditor, "<rspec>other</rspec>", Authorization},
		{"the longest", Lead, strings.Repeat("x", MaxRequest), None},
		{"too long", Lead, strings.Repeat("x", MaxRequest+1), Argument},
		{"none", Lead, "", None},
	} {
		if n, err := f.AddMembers("lab1", []string{"bob", "alice"}, x.bob); n != 1 || err != nil {
			t.Fatalf("%d members added: %v", n, err)
		}
		before := read("alice")
		a := set("bob", x.request)
		if a.code != x.want {
			t.Errorf("%s: %d %s", x.rule, a.code, a.output)
		}
		want := before
		if x.want == None {
			want = x.request
		}
		if got := read("bob"); got != want || read("carol") != "" {
			t.Errorf("%s: the request is %.40q, want %.40q; others read %.40q", x.rule, got, want, read("carol"))
		}
		f.must("alice", "/sa/2", "modify_membership", "PROJECT", lab, none, change("members_to_remove", userURN("bob")))
	}
	store := func(project, text string) error { _, err := f.SetRequest(project, []byte(text)); return err }
	f.do(store("lab1", "<rspec/>"))
	if isSet, err := f.SetRequest("lab1", []byte("<other/>")); isSet || err != nil || read("alice") == "<other/>" {
		t.Errorf("another request takes the place of the stored one: %t, %v", isSet, err)
	}
	_, err = f.AddProject("lab3", "alice", f.now)
	f.do(err)
	v, _ := f.must("alice", "/sa/2", "lookup", "PROJECT", none, xmlrpc.Struct{}).(xmlrpc.Struct).Get(lab)
	if _, has := v.(xmlrpc.Struct).Get(fieldRequest); has {
		t.Error("a lookup without a filter returns the request")
	}
	for what, err := range map[string]error{
		"not UTF-8": store("lab3", "\xff"), "a control character": store("lab3", "\x00"), "an unknown project": store("lab2", ""),
	} {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if _, err := f.AddMembers("lab1", []string{"bob", "nobody"}, PlainMember); err == nil {
		t.Error("an unknown member is added")
	}
	member, lead := mustURN(userURN("bob")), mustURN(userURN("alice"))
	for who, want := range map[string]Role{member.String(): "", lead.String(): Lead} {
		if role, err := f.RoleIn(mustURN(lab), mustURN(who)); role != want || err != nil {
			t.Errorf("the role of %s is %q: %v", who, role, err)
		}
	}
	f.do(f.RemoveProject("lab1", f.now))
	_, err = f.AddProject("lab1", "alice", f.now)
	f.do(err)
	if got := read("alice"); got != "" {
		t.Errorf("a new project has the request %q of a removed one", got)
	}
}
