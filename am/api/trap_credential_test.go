package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/testdata/pki"
)

// escaped is a text as it stands in XML.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// labelled is a credential as version 3 has it on the wire, each member a whole value.
func labelled(typ, version, value string) string {
	return "<struct><member><name>geni_type</name><value>" + typ + "</value></member><member><name>geni_version</name><value>" + version +
		"</value></member><member><name>geni_value</name><value>" + value + "</value></member></struct>"
}

func inArray(values ...string) string {
	return "<array><data><value>" + strings.Join(values, "</value><value>") + "</value></data></array>"
}

// credentialForms are all the ways in which deployed clients put a credential on the wire.
func credentialForms(document string) map[string]string {
	text := "<string>" + escaped(document) + "</string>"
	packed := "<base64>" + base64.StdEncoding.EncodeToString([]byte(document)) + "</base64>"
	return map[string]string{
		"as version 3 says":          labelled("<string>geni_sfa</string>", "<string>3</string>", text),
		"version 2 of it":            labelled("<string>geni_sfa</string>", "<string>2</string>", text),
		"int for the version":        labelled("<string>geni_sfa</string>", "<int>3</int>", text),
		"i4 for the version":         labelled("<string>geni_sfa</string>", "<i4>3</i4>", text),
		"base64 for the document":    labelled("<string>geni_sfa</string>", "<int>3</int>", packed),
		"base64 in lines":            labelled("geni_sfa", "3", strings.Replace(packed, "</base64>", "\n</base64>", 1)),
		"values without a type":      labelled("geni_sfa", "3", escaped(document)),
		"another case of letters":    labelled("GENI_SFA", "3", text),
		"without prefix":             labelled("sfa", "3", text),
		"omni's word for delegated":  labelled("geni_unknown", "0", text),
		"a bare string":              text,
		"a bare string without type": escaped(document),
		"bare base64":                packed,
		"white space around it":      "<string>\n  " + escaped(document) + "\n\n</string>",
		"a byte order mark":          "<string>\ufeff" + escaped(document) + "</string>",
	}
}

// TestTrap15CredentialsInEveryForm takes every form in both versions, and none
// of them with a document that was altered.
func TestTrap15CredentialsInEveryForm(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"))
	broken := strings.Replace(l.cred, "+slice+s1<", "+slice+s2<", 1)
	if broken == l.cred {
		t.Fatal("the credential is as it was")
	}
	good, bad := credentialForms(l.cred), credentialForms(broken)
	for form := range good {
		for _, tt := range []struct {
			version int
			method  string
			urn     string
		}{{3, "Status", wire(t, strs(l.slice))}, {2, "SliverStatus", wire(t, l.slice)}} {
			what := fmt.Sprintf("%s in version %d", form, tt.version)
			l.read(l.send(tt.version, tt.method, tt.urn, inArray(good[form]), "<struct/>")).want(t, what, am.Success)
			l.read(l.send(tt.version, tt.method, tt.urn, inArray(bad[form]), "<struct/>")).want(t, what+", broken", am.Forbidden)
		}
	}
	for what, form := range map[string]string{
		"a type that nobody knows":     labelled("geni_sfaBROKEN", "3", escaped(l.cred)),
		"another type":                 labelled("geni_foo", "3", escaped(l.cred)),
		"a version nobody knows":       labelled("geni_sfa", "99", escaped(l.cred)),
		"unknown, and not well-formed": labelled("geni_unknown", "0", escaped(l.cred[1:])),
	} {
		l.read(l.send(3, "Status", wire(t, strs(l.slice)), inArray(form), "<struct/>")).want(t, what, am.Forbidden)
	}
	for what, list := range map[string]string{
		"a string instead of the list":  "<string>" + escaped(l.cred) + "</string>",
		"a struct without its document": inArray("<struct><member><name>geni_type</name><value>geni_sfa</value></member></struct>"),
		"a number for the document":     labelled("geni_sfa", "3", "<boolean>1</boolean>"),
	} {
		l.read(l.send(3, "Status", wire(t, strs(l.slice)), list, "<struct/>")).want(t, what, am.BadArgs)
	}
}

// federal is a site that trusts an authority made for the test, whose clock
// stands at pki.Now.
type federal struct {
	*site
	root *pki.Entity
}

func newFederal(t *testing.T, authority string) *federal {
	root := pki.Authority(t, nil, "urn:publicid:IDN+"+authority+"+authority+sa", "rsa1")
	return &federal{setting{began: pki.Now, anchors: pki.Anchors(root)}.site(t), root}
}

func (f *federal) as(chain ...*pki.Entity) *caller {
	return &caller{site: f.site, urn: chain[0].URN, chain: pki.Raw(chain...)}
}

// grant is a credential of everything; without a signer, the root signs.
func (f *federal) grant(t *testing.T, owner, target *pki.Entity, more ...func(*pki.Credential)) string {
	c := pki.Credential{Owner: []*pki.Entity{owner}, Target: []*pki.Entity{target}, Signer: []*pki.Entity{f.root}, Privileges: []string{"*"}}
	for _, m := range more {
		m(&c)
	}
	return c.Signed(t)
}

// TestTrap36SliceNamesAsTheyAre: authorities in the field keep to none of the
// limits that the text has for the names of slices.
func TestTrap36SliceNamesAsTheyAre(t *testing.T) {
	f := newFederal(t, "fed.example.org:proj")
	alice := pki.User(t, f.root, "urn:publicid:IDN+fed.example.org:proj+user+alice_von_humboldt", "rsa2")
	c := f.as(alice)
	for _, name := range []string{
		"a_name_with_underscores", "much-longer-than-nineteen-characters", "with.dots.v1", "UPPER", "1", strings.Repeat("x", 150), "with+plus", "-begins",
	} {
		slice := pki.User(t, f.root, "urn:publicid:IDN+fed.example.org:proj+slice+"+name, "rsa3")
		cred := f.grant(t, alice, slice)
		u := slice.URN.String()
		c.ask(3, "Allocate", u, creds(cred), request(node("a")), opts()).want(t, name, am.Success)
		c.ask(3, "Provision", strs(u), creds(cred), opts(opt("geni_users", []xmlrpc.Value{user(alice.URN.String(), testKey)}))).want(t, name, am.Success)
		f.settle()
		e := c.ask(2, "SliverStatus", u, strs(cred), xmlrpc.Struct{}).want(t, name, am.Success)
		if err := e.is("value.geni_urn", "string", u); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.ask(3, "Delete", strs(u), creds(cred), opts()).want(t, name, am.Success)
		f.settle()
	}
}

// TestTrap38JunkAmongCredentials: one good credential suffices, wherever it stands.
func TestTrap38JunkAmongCredentials(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	name := func(kind, n string) string { return "urn:publicid:IDN+fed.example.org+" + kind + "+" + n }
	alice, bob := pki.User(t, f.root, name("user", "alice"), "rsa2"), pki.User(t, f.root, name("user", "bob"), "rsa4")
	tool := pki.User(t, f.root, name("tool", "portal"), "rsa5")
	slice, other := pki.User(t, f.root, name("slice", "s1"), "rsa3"), pki.User(t, f.root, name("slice", "s2"), "rsa3")
	c, urns := f.as(alice), strs(slice.URN.String())
	good := f.grant(t, alice, slice)
	c.ask(3, "Allocate", slice.URN.String(), creds(good), request(node("a")), opts()).want(t, "Allocate", am.Success)

	one := func(typ, version, text string) xmlrpc.Value {
		return xmlrpc.Struct{opt("geni_type", typ), opt("geni_version", version), opt("geni_value", text)}
	}
	junk := map[string]xmlrpc.Value{
		"speaks-for":              one("geni_abac", "1", pki.SpeaksFor{Signer: []*pki.Entity{alice}, Tool: tool}.Signed(t)),
		"another's speaks-for":    one("geni_abac", "1", pki.SpeaksFor{Signer: []*pki.Entity{bob}, Tool: tool}.Signed(t)),
		"no XML":                  one("geni_sfa", "3", "junk"),
		"empty":                   one("geni_sfa", "3", ""),
		"an unknown type":         one("geni_foo", "7", good),
		"expired":                 one("geni_sfa", "3", f.grant(t, alice, slice, func(c *pki.Credential) { c.Expires = "2026-11-20T12:00:00Z" })),
		"another's":               one("geni_sfa", "3", f.grant(t, bob, slice)),
		"of another slice":        one("geni_sfa", "3", f.grant(t, alice, other)),
		"the user credential":     one("geni_sfa", "3", f.grant(t, alice, alice)),
		"altered":                 one("geni_sfa", "3", strings.Replace(good, "<serial>8", "<serial>9", 1)),
		"without a signature":     one("geni_sfa", "3", pki.Credential{Owner: []*pki.Entity{alice}, Target: []*pki.Entity{slice}, Privileges: []string{"*"}}.Unsigned()),
		"signed by the user":      one("geni_sfa", "3", f.grant(t, alice, slice, func(c *pki.Credential) { c.Signer = []*pki.Entity{alice} })),
		"no privilege that helps": one("geni_sfa", "3", f.grant(t, alice, slice, func(c *pki.Credential) { c.Privileges = []string{"refresh"} })),
	}
	right := one("geni_sfa", "3", good)
	all := []xmlrpc.Value{}
	for what, j := range junk {
		c.ask(3, "Status", urns, []xmlrpc.Value{j, right}, opts()).want(t, what+" before the good one", am.Success)
		c.ask(3, "Status", urns, []xmlrpc.Value{right, j}, opts()).want(t, what+" after it", am.Success)
		c.ask(3, "Status", urns, []xmlrpc.Value{j}, opts()).want(t, what+" alone", am.Forbidden)
		all = append(all, j)
	}
	c.ask(3, "Status", urns, all, opts()).want(t, "junk only", am.Forbidden)
	few := all[:5]
	e := c.ask(3, "Status", urns, few, opts()).want(t, "some junk only", am.Forbidden)
	for i := range few {
		if n := fmt.Sprintf("credential %d", i+1); !strings.Contains(e.at("output").text, n) {
			t.Errorf("the reason of %s is not told: %q", n, e.at("output").text)
		}
	}
	c.ask(3, "Status", urns, append(all, right), opts()).want(t, "the good one behind all the junk", am.Success)
}

// TestTrap39SubAuthoritiesCount: whole URNs are compared, never the name at the
// end and never the host at the beginning.
func TestTrap39SubAuthoritiesCount(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	project := pki.Authority(t, f.root, "urn:publicid:IDN+fed.example.org:proj+authority+sa", "rsa4")
	member := func(authority, kind, name, key string, issuer *pki.Entity) *pki.Entity {
		return pki.User(t, issuer, "urn:publicid:IDN+"+authority+"+"+kind+"+"+name, key)
	}
	mine := member("fed.example.org:proj", "user", "alice", "rsa2", project)
	namesake := member("fed.example.org", "user", "alice", "rsa5", f.root)
	neighbour := member("fed.example.org:project", "user", "alice", "rsa6", f.root)
	slice := member("fed.example.org:proj", "slice", "s1", "rsa3", project)
	upper := member("fed.example.org", "slice", "s1", "rsa3", f.root)

	byProject := func(c *pki.Credential) {
		c.Signer = []*pki.Entity{project, f.root}
		c.Owner = append(c.Owner, project, f.root)
		c.Target = append(c.Target, project, f.root)
	}
	cred := f.grant(t, mine, slice, byProject)
	u := slice.URN.String()
	allocate := func(rule string, who *caller, slice, cred string, want am.Code) {
		t.Helper()
		who.ask(3, "Allocate", slice, creds(cred), request(node("a")), opts()).want(t, rule, want)
	}
	allocate("leaf only", f.as(mine), u, cred, am.Success)
	f.as(mine, project).ask(3, "Status", strs(u), creds(cred), opts()).want(t, "with its issuer", am.Success)
	f.as(mine, project, f.root).ask(2, "SliverStatus", u, strs(cred), xmlrpc.Struct{}).want(t, "with the whole chain", am.Success)
	allocate("the authority above has a user of that name", f.as(namesake), u, cred, am.Forbidden)
	allocate("an authority whose name begins alike has one", f.as(neighbour), u, cred, am.Forbidden)
	allocate("the authority above has a slice of that name", f.as(mine), upper.URN.String(), cred, am.Forbidden)
	allocate("a credential for the namesake's slice", f.as(mine), u, f.grant(t, mine, upper, func(c *pki.Credential) { c.Owner = append(c.Owner, project) }), am.Forbidden)
	allocate("signed by the sub-authority for the authority above", f.as(namesake), upper.URN.String(), f.grant(t, namesake, upper, func(c *pki.Credential) { c.Signer = []*pki.Entity{project, f.root} }), am.Forbidden)
	allocate("its neighbour, signed by the authority above", f.as(namesake), upper.URN.String(), f.grant(t, namesake, upper), am.Success)
	// The slice shows itself under its whole name.
	e := f.as(mine).ask(3, "Status", strs(u), creds(cred), opts()).want(t, "Status", am.Success)
	if err := e.is("value.geni_urn", "string", "urn:publicid:IDN+fed.example.org:proj+slice+s1"); err != nil {
		t.Error(err)
	}
}

// TestTrap40FreshCredentialRenews: nobody tells the aggregate that a slice was
// prolonged; a credential shown later does.
func TestTrap40FreshCredentialRenews(t *testing.T) {
	l := newLab(t)
	slice, short := l.caller.slice("fresh", 24*time.Hour)
	_, long := l.caller.slice("fresh", 6*24*time.Hour)
	at := func(d time.Duration) string { return l.site.clock().Add(d).Format(time.RFC3339) }
	limit := at(24 * time.Hour)
	expires := func(what, want string) {
		t.Helper()
		e := l.ask(3, "Status", strs(slice), creds(short), opts()).want(t, what, am.Success)
		if err := sliversOf(e)[0].is("geni_expires", "string", want); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.ask(3, "Allocate", slice, creds(short), request(node("a")), opts()).want(t, "Allocate", am.Success)
	l.ask(3, "Provision", strs(slice), creds(short), opts(opt("geni_end_time", at(5*24*time.Hour)))).want(t, "Provision", am.Success)
	expires("a wish beyond the credential is cut to it", limit)
	l.ask(3, "Renew", strs(slice), creds(short), at(3*24*time.Hour), opts()).want(t, "beyond the credential", am.Refused)
	expires("refused", limit)
	l.ask(2, "RenewSliver", slice, strs(short), at(3*24*time.Hour), xmlrpc.Struct{}).want(t, "beyond it in version 2", am.Refused)
	expires("refused", limit)
	l.ask(3, "Renew", strs(slice), creds(short, long), at(5*24*time.Hour), opts()).want(t, "with a fresh one beside it", am.Success)
	expires("renewed", at(5*24*time.Hour))
	// The old one, shown later, takes nothing away and gives nothing.
	l.ask(3, "Describe", strs(slice), creds(short), opts()).want(t, "Describe", am.Success)
	expires("after the old one was shown", at(5*24*time.Hour))
	l.ask(3, "Renew", strs(slice), creds(short), at(5*24*time.Hour+time.Hour), opts()).want(t, "the old one again", am.Refused)
	l.ask(2, "RenewSliver", slice, strs(long), at(5*24*time.Hour+time.Hour), xmlrpc.Struct{}).want(t, "the fresh one in version 2", am.Success)
	expires("renewed by version 2", at(5*24*time.Hour+time.Hour))
}
