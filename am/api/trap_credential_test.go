package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
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

// credentialForms are all forms in which deployed clients send a credential.
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

// TestTrap15CredentialsInEveryForm checks that both versions accept every form of a valid
// credential and refuse every form of a modified one.
func TestTrap15CredentialsInEveryForm(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h\nalice Allocate s1 a")
	alice, cred := w.who("alice"), w.creds["s1"]
	show := func(what, list string, want am.Code) {
		t.Helper()
		alice.read(alice.send(3, "Status", wire(t, strs(w.urns["s1"])), list, "<struct/>")).want(t, what, want)
		alice.read(alice.send(2, "SliverStatus", wire(t, w.urns["s1"]), list, "<struct/>")).want(t, what+" in version 2", want)
	}
	bad := credentialForms(strings.Replace(cred, "+slice+s1<", "+slice+s2<", 1))
	for form, good := range credentialForms(cred) {
		show(form, inArray(good), am.Success)
		show(form+", broken", inArray(bad[form]), am.Forbidden)
	}
	show("a type that nobody knows", inArray(labelled("geni_sfaBROKEN", "3", escaped(cred))), am.Forbidden)
	show("a version nobody knows", inArray(labelled("geni_sfa", "99", escaped(cred))), am.Forbidden)
	show("unknown, and not well-formed", inArray(labelled("geni_unknown", "0", escaped(cred[1:]))), am.Forbidden)
	show("a string instead of the list", "<string>"+escaped(cred)+"</string>", am.BadArgs)
	show("a struct without its document", inArray("<struct><member><name>geni_type</name><value>geni_sfa</value></member></struct>"), am.BadArgs)
	show("a number for the document", inArray(labelled("geni_sfa", "3", "<boolean>1</boolean>")), am.BadArgs)
}

// federal is a site that trusts an authority made for the test, whose clock
// stands at pki.Now.
type federal struct {
	*world
	root *pki.Entity
}

func newFederal(t *testing.T, authority string) *federal {
	root := pki.Authority(t, nil, "urn:publicid:IDN+"+authority+"+authority+sa", "rsa1")
	return &federal{setting{began: pki.Now, anchors: pki.Anchors(root)}.world(t), root}
}

func (f *federal) as(chain ...*pki.Entity) *caller {
	return &caller{site: f.site, urn: chain[0].URN, chain: pki.Raw(chain...)}
}

// knows gives an entity and its chain a name in stories: a user or a slice.
func (f *federal) knows(name string, chain ...*pki.Entity) *pki.Entity {
	f.callers[name], f.urns[name] = f.as(chain...), chain[0].URN.String()
	return chain[0]
}

// grant returns a credential with all privileges; without a signer, the root signs.
func (f *federal) grant(t *testing.T, owner, target *pki.Entity, more ...func(*pki.Credential)) string {
	c := pki.Credential{Owner: []*pki.Entity{owner}, Target: []*pki.Entity{target}, Signer: []*pki.Entity{f.root}, Privileges: []string{"*"}}
	for _, m := range more {
		m(&c)
	}
	return c.Signed(t)
}

// TestTrap36UnusualSliceNamesAreAccepted uses slice names that violate the specification, because deployed
// authorities give such names.
func TestTrap36UnusualSliceNamesAreAccepted(t *testing.T) {
	f := newFederal(t, "fed.example.org:proj")
	alice := f.knows("alice", pki.User(t, f.root, "urn:publicid:IDN+fed.example.org:proj+user+alice_von_humboldt", "rsa2"))
	for _, name := range []string{
		"a_name_with_underscores", "much-longer-than-nineteen-characters", "with.dots.v1", "UPPER", "1", strings.Repeat("x", 150), "with+plus", "-begins",
	} {
		f.creds["s"] = f.grant(t, alice, f.knows("s", pki.User(t, f.root, "urn:publicid:IDN+fed.example.org:proj+slice+"+name, "rsa3")))
		f.play(`
			alice Allocate s a
			alice Provision s geni_users=alice
			settle
			alice SliverStatus s -> value.geni_urn=<string>s
			alice Delete s
			settle
		`)
	}
}

// TestTrap38JunkAmongCredentials checks that one valid credential suffices, at any position among
// useless ones. If all are useless, the refusal gives the reason for each.
func TestTrap38JunkAmongCredentials(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	name := func(kind, n string) string { return "urn:publicid:IDN+fed.example.org+" + kind + "+" + n }
	alice, bob := pki.User(t, f.root, name("user", "alice"), "rsa2"), pki.User(t, f.root, name("user", "bob"), "rsa4")
	tool := pki.User(t, f.root, name("tool", "portal"), "rsa5")
	slice := pki.User(t, f.root, name("slice", "s1"), "rsa3")
	c, urns := f.as(alice), strs(slice.URN.String())
	good := f.grant(t, alice, slice)
	c.ask(3, "Allocate", slice.URN.String(), creds(good), request(node("a")), opts()).want(t, "Allocate", am.Success)

	one := func(typ, version, text string) xmlrpc.Value {
		return xmlrpc.Struct{opt("geni_type", typ), opt("geni_version", version), opt("geni_value", text)}
	}
	right := one("geni_sfa", "3", good)
	all := []xmlrpc.Value{
		one("geni_abac", "1", pki.SpeaksFor{Signer: []*pki.Entity{alice}, Tool: tool}.Signed(t)),
		one("geni_sfa", "3", "junk"),
		one("geni_foo", "7", good),
		one("geni_sfa", "3", f.grant(t, alice, slice, func(c *pki.Credential) { c.Expires = "2026-11-20T12:00:00Z" })),
		one("geni_sfa", "3", f.grant(t, bob, slice)),
		one("geni_sfa", "3", f.grant(t, alice, alice)),
		one("geni_sfa", "3", strings.Replace(good, "<serial>8", "<serial>9", 1)),
		one("geni_sfa", "3", f.grant(t, alice, slice, func(c *pki.Credential) { c.Privileges = []string{"refresh"} })),
	}
	for i, junk := range all {
		what := fmt.Sprint("junk ", i)
		c.ask(3, "Status", urns, []xmlrpc.Value{junk, right}, opts()).want(t, what+" before the good one", am.Success)
		c.ask(3, "Status", urns, []xmlrpc.Value{right, junk}, opts()).want(t, what+" after it", am.Success)
		c.ask(3, "Status", urns, []xmlrpc.Value{junk}, opts()).want(t, what+" alone", am.Forbidden)
	}
	c.ask(3, "Status", urns, all, opts()).want(t, "junk only", am.Forbidden)
	e := c.ask(3, "Status", urns, all[:5], opts()).want(t, "some junk only", am.Forbidden)
	for i := range 5 {
		if n := fmt.Sprintf("credential %d", i+1); !strings.Contains(e.member("output"), n) {
			t.Errorf("the reason of %s is missing: %q", n, e.member("output"))
		}
	}
	c.ask(3, "Status", urns, append(all, right), opts()).want(t, "the good one behind all the junk", am.Success)
}

// TestTrap39SubAuthoritiesCount checks that whole URNs are compared: users and slices of different
// sub-authorities differ, also if their names or the beginning of their authorities are equal.
func TestTrap39SubAuthoritiesCount(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	project := pki.Authority(t, f.root, "urn:publicid:IDN+fed.example.org:proj+authority+sa", "rsa4")
	member := func(authority, kind, name, key string, issuer *pki.Entity) *pki.Entity {
		return pki.User(t, issuer, "urn:publicid:IDN+"+authority+"+"+kind+"+"+name, key)
	}
	mine := f.knows("mine", member("fed.example.org:proj", "user", "alice", "rsa2", project))
	f.knows("issued", mine, project)
	f.knows("whole", mine, project, f.root)
	namesake := f.knows("namesake", member("fed.example.org", "user", "alice", "rsa5", f.root))
	f.knows("neighbour", member("fed.example.org:project", "user", "alice", "rsa6", f.root))
	slice := f.knows("slice", member("fed.example.org:proj", "slice", "s1", "rsa3", project))
	upper := f.knows("upper", member("fed.example.org", "slice", "s1", "rsa3", f.root))
	f.creds["slice"] = f.grant(t, mine, slice, func(c *pki.Credential) {
		c.Signer = []*pki.Entity{project, f.root}
		c.Owner = append(c.Owner, project, f.root)
		c.Target = append(c.Target, project, f.root)
	})
	f.creds["hers"] = f.grant(t, mine, upper, func(c *pki.Credential) { c.Owner = append(c.Owner, project) })
	f.creds["below"] = f.grant(t, namesake, upper, func(c *pki.Credential) { c.Signer = []*pki.Entity{project, f.root} })
	f.creds["upper"] = f.grant(t, namesake, upper)
	f.play(`
		mine Allocate slice a
		issued Status slice -> value.geni_urn=<string>urn:publicid:IDN+fed.example.org:proj+slice+s1
		whole SliverStatus slice
		namesake Allocate slice a -> FORBIDDEN
		neighbour Allocate slice a -> FORBIDDEN
		mine Allocate upper a with=slice -> FORBIDDEN
		mine Allocate slice a with=hers -> FORBIDDEN
		namesake Allocate upper a with=below -> FORBIDDEN
		namesake Allocate upper a
	`)
}

// TestTrap40FreshCredentialRenews checks that a credential with a later end permits a longer lease,
// without any other message to the aggregate. Using the old credential afterwards does not shorten
// or extend the lease.
func TestTrap40FreshCredentialRenews(t *testing.T) {
	newWorld(t).play(`
		alice owns s1 24h
		alice owns s1 6d as long
		alice Allocate s1 a
		alice Provision s1 geni_end_time=+5d -> @+24h
		alice Renew s1 +3d -> REFUSED
		alice RenewSliver s1 +3d -> REFUSED
		alice Status s1 -> @+24h
		alice Renew s1 +5d with=s1,long -> @+5d
		alice Describe s1 -> @+5d
		alice Renew s1 +121h -> REFUSED
		alice Renew s1 +121h geni_extend_alap=true -> @+5d
		alice RenewSliver s1 +121h with=long
		alice Status s1 -> @+121h
	`)
}
