package main

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
)

// credentialAttacks returns the cases that send a document in place of a slice
// credential. The original credential is valid, so the change causes the refusal.
func credentialAttacks() []attack {
	describe := func(t *testing.T, s *hostileTest, creds ...xmlrpc.Value) string {
		return encoded(t, "Describe", urns(s.bad.slice), creds, rspec3("GENI"))
	}
	all := []attack{postAttack("its own", "code 0", func(t *testing.T, s *hostileTest) string { return describe(t, s, s.bad.creds(s.bad.cred)...) })}
	// Changed copies of the valid credential.
	for _, x := range []struct {
		name, want string
		edit       func(cred string) string
	}{
		{"half of it", "code 3", func(c string) string { return c[:len(c)/2] }},
		{"it twice in a row", "code 3", func(c string) string { return c + c }},
		{"nothing", "code 1, code 3", func(string) string { return "" }},
		{"blanks", "code 3", func(string) string { return strings.Repeat(" ", largeSize) }},
		{"1 MB of <", "code 3", func(string) string { return strings.Repeat("<", largeSize) }},
		{"300,000 start tags", "code 3", func(string) string { return strings.Repeat("<a>", 300000) }},
		{"NUL behind it", "code 3, fault", func(c string) string { return c + "\ufffe" }},
		{"DOCTYPE", "code 3", func(c string) string { return withDoctype(c, `<!DOCTYPE signed-credential>`) }},
		{"an external entity", "code 3", func(c string) string {
			return withDoctype(c, `<!DOCTYPE signed-credential [<!ENTITY x SYSTEM "file:///etc/passwd">]>`)
		}},
		{"an external DTD", "code 3", func(c string) string {
			return withDoctype(c, `<!DOCTYPE signed-credential SYSTEM "http://127.0.0.1:1/x.dtd">`)
		}},
		{"a billion laughs", "code 3", func(c string) string { return expandingEntities("signed-credential", withoutDeclaration(c)) }},
		{"laughs in an owner", "code 3", func(c string) string {
			return expandingEntities("signed-credential", strings.Replace(withoutDeclaration(c), "<owner_urn>", "<owner_urn>&l9;", 1))
		}},
		{"XInclude", "code 3", func(c string) string {
			return replaceFirst(c, "<credential", `<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/><credential`)
		}},
		{"a style sheet", "code 0, code 3", func(c string) string {
			return withDoctype(c, `<?xml-stylesheet href="http://127.0.0.1:1/x.xsl"?>`)
		}},
		{"elements in each other, 100,000 deep", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn>", strings.Repeat("<a>", 100000)+strings.Repeat("</a>", 100000)+"<owner_urn>")
		}},
		{"elements in each other, 230 deep", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn>", strings.Repeat("<a>", 230)+strings.Repeat("</a>", 230)+"<owner_urn>")
		}},
		{"100,000 attributes", "code 3", func(c string) string { return replaceFirst(c, "<owner_urn", "<owner_urn"+repeated(100000, ` a%d=""`)) }},
		{"100,000 namespaces", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn", "<owner_urn"+repeated(100000, ` xmlns:a%d="urn:x"`))
		}},
		{"an attribute of 5 MB", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn", `<owner_urn a="`+strings.Repeat("x", 5*largeSize)+`"`)
		}},
		{"an owner of 5 MB", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn>", "<owner_urn>"+strings.Repeat("x", 5*largeSize))
		}},
		{"100,000 privileges", "code 3", func(c string) string {
			return replaceFirst(c, "<privileges>", "<privileges>"+strings.Repeat("<privilege><name>*</name><can_delegate>1</can_delegate></privilege>", 100000))
		}},
		{"10,000 certificates", "code 3", func(c string) string {
			return replaceFirst(c, "<X509Certificate>", strings.Repeat("<X509Certificate>QUJD</X509Certificate>", 10000)+"<X509Certificate>")
		}},
		{"a certificate of 5 MB", "code 3", func(c string) string {
			return replaceFirst(c, "<X509Certificate>", "<X509Certificate>"+strings.Repeat("QUJD", 5*largeSize/4))
		}},
		{"an owner's certificate of 5 MB", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_gid>", "<owner_gid>"+strings.Repeat("QUJD\n", largeSize))
		}},
		{"a signature of 5 MB", "code 3", func(c string) string {
			return replaceFirst(c, "<SignatureValue>", "<SignatureValue>"+strings.Repeat("QUJD", 5*largeSize/4))
		}},
		{"10,000 references", "code 3", func(c string) string { return repeatElement(c, "Reference", 10000) }},
		{"10,000 transforms", "code 3", func(c string) string {
			return replaceFirst(c, "<Transforms>", "<Transforms>"+strings.Repeat(`<Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/>`, 10000))
		}},
		{"a transform by XSLT", "code 3", func(c string) string {
			return replaceFirst(c, "<Transforms>", `<Transforms><Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>`)
		}},
		{"500 signatures", "code 3", func(c string) string { return repeatElement(c, "Signature", 500) }},
		{"1,000 credentials in one", "code 3", func(c string) string { return repeatElement(c, "credential", 1000) }},
		{"what inflates to 64 MB", "code 3", func(string) string { return deflatedZeros(64 << 20) }},
		{"lines for the log", "code 3", func(c string) string {
			return replaceFirst(c, "<owner_urn>", "<owner_urn>\n"+injectionMark+"\r\n"+injectionMark)
		}},
		{"somebody else's", "code 3", nil},
	} {
		all = append(all, postAttack(x.name, x.want, func(t *testing.T, s *hostileTest) string {
			if x.edit == nil {
				return describe(t, s, s.bad.creds(s.good.cred)...)
			}
			c := x.edit(s.bad.cred)
			if c == s.bad.cred {
				t.Fatal("the credential was not changed: the case proves nothing")
			}
			return describe(t, s, s.bad.creds(c)...)
		}))
	}
	list := func(n int, c string) (all []string) {
		for range n {
			all = append(all, c)
		}
		return all
	}
	return append(all,
		postAttack("33 credentials", "code 1, code 3", func(t *testing.T, s *hostileTest) string {
			return describe(t, s, s.bad.creds(list(33, s.bad.cred)...)...)
		}),
		postAttack("32 of 480 kB", "code 3", func(t *testing.T, s *hostileTest) string {
			return describe(t, s, s.bad.creds(list(32, strings.Replace(s.bad.cred, "<owner_urn>", "<owner_urn>"+strings.Repeat("x", 480<<10), 1))...)...)
		}),
		postAttack("32 of 1 MB", "http 413, cut", func(t *testing.T, s *hostileTest) string {
			return describe(t, s, s.bad.creds(list(32, strings.Repeat("x", 1<<20))...)...)
		}),
		postAttack("31 that are none and one that is", "code 0", func(t *testing.T, s *hostileTest) string {
			return describe(t, s, append(s.bad.creds(list(31, strings.Repeat("<a>", 1000))...), s.bad.creds(s.bad.cred)...)...)
		}),
		postAttack("of a type of 1 MB", "code 1, code 3", func(t *testing.T, s *hostileTest) string {
			return describe(t, s, labelledCredential(strings.Repeat("x", largeSize), "3", s.bad.cred))
		}),
		postAttack("in bytes", "code 0", func(t *testing.T, s *hostileTest) string {
			body := describe(t, s, labelledCredential("geni_sfa", "3", "HERE"))
			return strings.Replace(body, "<string>HERE</string>", "<base64>"+base64Text(s.bad.cred)+"</base64>", 1)
		}),
		attack{"cut after each of 60 parts", func(t *testing.T, s *hostileTest) {
			for i := range 60 {
				c := s.bad.cred[:len(strings.TrimSpace(s.bad.cred))*i/60]
				if got, output := s.outcome(s.bad.http, strings.NewReader(describe(t, s, s.bad.creds(c)...))); got != "code 3" && got != "code 1" {
					t.Errorf("%d bytes of it: %s %s", len(c), got, output)
				}
			}
		}},
		attack{"a letter in each of 60 places", func(t *testing.T, s *hostileTest) {
			signed := strings.Index(s.bad.cred, "</credential>")
			for i := range 60 {
				at := signed * i / 60
				if at = at + strings.IndexAny(s.bad.cred[at:], "0123456789abcdefghijklmnopqrstuvwxyz"); at >= signed {
					break
				}
				c := []byte(s.bad.cred)
				c[at] ^= 1
				if got, output := s.outcome(s.bad.http, strings.NewReader(describe(t, s, s.bad.creds(string(c))...))); got == "code 0" && at > strings.Index(s.bad.cred, "<credential") {
					t.Errorf("byte %d changed: %s %s", at, got, output)
				}
			}
		}},
	)
}

// withoutDeclaration returns a document without its XML declaration.
func withoutDeclaration(c string) string {
	if strings.HasPrefix(c, "<?xml") {
		_, c, _ = strings.Cut(c, "?>")
	}
	return c
}

// withDoctype returns a document with a text between declaration and root.
func withDoctype(c, text string) string {
	return `<?xml version="1.0"?>` + text + withoutDeclaration(c)
}

// replaceFirst replaces the first mark by text.
func replaceFirst(c, mark, text string) string { return strings.Replace(c, mark, text, 1) }

// repeatElement returns a document with n copies of an element.
func repeatElement(c, name string, n int) string {
	begin, end := strings.Index(c, "<"+name+" "), strings.Index(c, "</"+name+">")
	if begin < 0 {
		begin = strings.Index(c, "<"+name+">")
	}
	if begin < 0 || end < begin {
		return c
	}
	end += len("</" + name + ">")
	return c[:begin] + strings.Repeat(c[begin:end], n) + c[end:]
}

const (
	requestHead = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">`
	vmNode      = `<node client_id="%s" exclusive="false"><sliver_type name="vm"/></node>`
)

// requestAttacks returns the cases that allocate hostile documents.
func requestAttacks() []attack {
	const refused, handled = "code 1", "code 0, code 1, code 4, code 6, code 7, code 12, code 13"
	var all []attack
	add := func(name, want, request string) {
		all = append(all, attack{name, func(t *testing.T, s *hostileTest) { s.request(t, want, request) }})
	}
	node := func(inside string) string {
		return requestHead + `<node client_id="n" exclusive="false"><sliver_type name="vm"/>` + inside + `</node></rspec>`
	}
	add("a plain one", "code 0", node(""))
	for _, size := range []int{1 << 10, 20 << 10, 1 << 20} {
		long := strings.Repeat("x", size)
		add(fmt.Sprintf("an attribute against the schema, of %d kB", size>>10), handled, requestHead+`<node client_id="n" exclusive="`+long+`"><sliver_type name="vm"/></node></rspec>`)
		add(fmt.Sprintf("a number against the schema, of %d kB", size>>10), handled, node(`<interface client_id="i"><ip address="`+long+`" netmask="`+long+`" type="ipv4"/></interface>`))
		add(fmt.Sprintf("an element against the schema, of %d kB", size>>10), handled, node(`<`+long+`/>`))
		add(fmt.Sprintf("many findings, of %d kB", size>>10), handled, node(strings.Repeat(`<login port="`+long[:min(size, 4<<10)]+`"/>`, 100)))
		add(fmt.Sprintf("formats, of %d kB", size>>10), handled, requestHead+`<node client_id="n" exclusive="`+strings.Repeat("%n%s", size/4)+`"/></rspec>`)
	}
	add("no document", refused, "")
	add("3 MB of <", refused, strings.Repeat("<", 3*largeSize))
	add("elements in each other, 100,000 deep", "code 1, code 6", node(strings.Repeat("<a>", 100000)+strings.Repeat("</a>", 100000)))
	add("100,000 nodes", "code 6", requestHead+repeated(100000, `<node client_id="n%d"/>`)+"</rspec>")
	add("9,000 nodes", "code 6, code 12", requestHead+repeated(9000, `<node client_id="n%d" exclusive="true"/>`)+"</rspec>")
	add("9,000 links of one node", handled, requestHead+fmt.Sprintf(vmNode, "n")+repeated(9000, `<link client_id="l%d"><interface_ref client_id="n:0"/></link>`)+"</rspec>")
	add("100,000 attributes", "code 1, code 6", requestHead+"<node"+repeated(100000, ` a%d=""`)+"/></rspec>")
	add("100,000 namespaces", "code 1, code 6", requestHead+"<node"+repeated(100000, ` xmlns:a%d="urn:x"`)+"/></rspec>")
	add("DOCTYPE", refused, "<!DOCTYPE rspec>"+node(""))
	add("a billion laughs", refused, expandingEntities("rspec", node("&l9;")))
	add("an external entity", refused, `<!DOCTYPE rspec [<!ENTITY x SYSTEM "file:///etc/passwd">]>`+node("&x;"))
	add("a schema from elsewhere", "code 0", strings.Replace(node(""), "<rspec ", `<rspec xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://127.0.0.1:1/x.xsd urn:x file:///etc/passwd" `, 1))
	add("XInclude", handled, node(`<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/>`))
	add("an execute of 1 MB", handled, node(`<services><execute shell="sh" command="`+strings.Repeat("x", largeSize)+`"/></services>`))
	add("10,000 executes", handled, node("<services>"+strings.Repeat(`<execute shell="sh" command="true"/>`, 10000)+"</services>"))
	add("installs from here", handled, node(`<services><install url="file:///etc/passwd" install_path="/../../.."/><install url="http://127.0.0.1:1/" install_path="/"/></services>`))
	all = append(all, attack{"names for shells, paths and formats", checkHostileNames}, attack{"accounts that are none", checkInvalidAccounts})
	return all
}

// request allocates a document, checks the outcome, and deletes the slivers.
func (s *hostileTest) request(t *testing.T, want, request string) {
	t.Helper()
	got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Allocate", s.bad.slice, s.bad.creds(s.bad.cred), request, xmlrpc.Struct{})))
	if !strings.Contains(", "+want+", ", ", "+got+", ") {
		t.Errorf("%s: %.300s; want %s", got, output, want)
	}
	if len(output) > 16<<10 {
		t.Errorf("%d bytes to tell of %s", len(output), got)
	}
	if got == "code 0" {
		s.deleteSlivers(t)
	}
}

func (s *hostileTest) deleteSlivers(t *testing.T) {
	t.Helper()
	if got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Delete", urns(s.bad.slice), s.bad.creds(s.bad.cred), xmlrpc.Struct{}))); got != "code 0" {
		t.Errorf("Delete: %s %s", got, output)
	}
}

// checkHostileNames gives nodes, images and hosts names that are commands, paths, formats
// or options, and provisions accepted requests.
func checkHostileNames(t *testing.T, s *hostileTest) {
	for i, name := range []string{
		"$(touch " + s.canary + ")", "`touch " + s.canary + "`", "; touch " + s.canary + " ;", "| touch " + s.canary, "a\ntouch " + s.canary + "\n",
		"../../../../../.." + s.canary, "/etc/passwd", "..", ".", "-rf", "--help", "%s%n%x", "{{.}}", "${HOME}", "a\"b'c", "\\u0000", "&lt;script&gt;",
		"a\u202eb", "a\u0000b", "\U0001F4A9", strings.Repeat("x", 255), strings.Repeat("x", 257), strings.Repeat("é", 128), "con", "a b", "", "*", "~root", "%00",
	} {
		var escaped strings.Builder
		for _, r := range name {
			switch {
			case r == 0:
				escaped.WriteString("&#0;")
			case r == '<' || r == '&' || r == '"' || r < ' ':
				fmt.Fprintf(&escaped, "&#%d;", r)
			default:
				escaped.WriteRune(r)
			}
		}
		for _, request := range []string{
			fmt.Sprintf(requestHead+vmNode+"</rspec>", escaped.String()),
			requestHead + `<node client_id="n" exclusive="false"><sliver_type name="` + escaped.String() + `"/></node></rspec>`,
			requestHead + `<node client_id="n" exclusive="false"><sliver_type name="vm"><disk_image name="` + escaped.String() + `"/></sliver_type></node></rspec>`,
			requestHead + `<node client_id="n" exclusive="false"><sliver_type name="vm"/><services><execute shell="` + escaped.String() + `" command="` + escaped.String() + `"/></services></node></rspec>`,
			requestHead + `<node client_id="n" component_id="urn:publicid:IDN+testbed.example.org+node+` + escaped.String() + `"/></rspec>`,
		} {
			got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Allocate", s.bad.slice, s.bad.creds(s.bad.cred), request, xmlrpc.Struct{})))
			if got == "cut" || strings.HasPrefix(got, "http") || got == "code 5" {
				t.Errorf("name %d, %.40q: %s %.300s", i, name, got, output)
			}
			if got != "code 0" {
				continue
			}
			if strings.Contains(request, `client_id="n"`) { // not the node's own name
				s.deleteSlivers(t)
				continue
			}
			s.provisionAndDelete(t, name)
		}
	}
}

// provisionAndDelete provisions a reservation, waits for its provider, and deletes it.
func (s *hostileTest) provisionAndDelete(t *testing.T, name string) {
	t.Helper()
	users := option("geni_users", userAccounts(s.bad.User))
	if got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Provision", urns(s.bad.slice), s.bad.creds(s.bad.cred), rspec3("GENI", users)))); got != "code 0" {
		t.Errorf("%.40q: Provision: %s %s", name, got, output)
	}
	v := *s.bad.wireClient
	v.t = t
	wait.Until(t, "the provider has spoken of "+name, func() bool {
		a := v.want("Status", am.Success, urns(s.bad.slice), v.creds(s.bad.cred), xmlrpc.Struct{})
		return member(v.slivers(a)[0], "geni_operational_status") != "geni_pending_allocation"
	})
	s.deleteSlivers(t)
}

// checkInvalidAccounts requests accounts with invalid names and keys.
func checkInvalidAccounts(t *testing.T, s *hostileTest) {
	key := strings.TrimSpace(string(s.bad.SSHPublicKey))
	user := func(urn string, keys ...xmlrpc.Value) xmlrpc.Value {
		return xmlrpc.Struct{option("urn", urn), option("keys", keys)}
	}
	const prefix = "urn:publicid:IDN+testbed.example.org+user+"
	repeat := func(n int, x xmlrpc.Value) (all []xmlrpc.Value) {
		for range n {
			all = append(all, x)
		}
		return all
	}
	for what, users := range map[string][]xmlrpc.Value{
		"root":                      {user(prefix+"root", key)},
		"a path":                    {user(prefix+"../../root", key)},
		"a command":                 {user(prefix+"$(touch "+s.canary+")", key)},
		"an option":                 {user(prefix+"-o", key)},
		"a name of 1 MB":            {user(prefix+strings.Repeat("x", 1<<20), key)},
		"a line of its own":         {user(prefix+"a\nroot::0:0", key)},
		"no URN":                    {user("attacker", key)},
		"no key":                    {user(prefix+"attacker", "no key")},
		"a key with a command":      {user(prefix+"attacker", `command="touch `+s.canary+`" `+key)},
		"a key with a second line":  {user(prefix+"attacker", key+"\n"+injectionMark+" ssh-rsa AAAA")},
		"a key with a long comment": {user(prefix+"attacker", key+strings.Repeat(" x", 1<<20))},
		"a key of 1 MB":             {user(prefix+"attacker", "ssh-rsa "+strings.Repeat("A", 1<<20))},
		"a number for a key":        {user(prefix+"attacker", 1)},
		"65 keys":                   {user(prefix+"attacker", repeat(65, key)...)},
		"257 users":                 repeat(257, user(prefix+"attacker", key)),
		"a user without anything":   {xmlrpc.Struct{}},
		"a word for a user":         {"attacker"},
	} {
		allocated, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Allocate", s.bad.slice, s.bad.creds(s.bad.cred), soakRequest, xmlrpc.Struct{})))
		if allocated != "code 0" {
			t.Fatalf("Allocate: %s %s", allocated, output)
		}
		got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Provision", urns(s.bad.slice), s.bad.creds(s.bad.cred), rspec3("GENI", option("geni_users", users)))))
		if got != "code 0" && got != "code 1" && got != "code 6" && got != "code 13" {
			t.Errorf("%s: %s %.300s", what, got, output)
		}
		if len(output) > 16<<10 {
			t.Errorf("%s: %d bytes to tell of %s", what, len(output), got)
		}
		s.deleteSlivers(t)
	}
}
