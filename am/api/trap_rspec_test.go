package api

import (
	"encoding/base64"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/inventory"
)

// rspecs has each method answer the RSpec that it gives: the advertisement, and
// the manifests of a slice made in version 3 and of one made in version 2.
func (l *lab) rspecs(t *testing.T, asked string) map[string]string {
	t.Helper()
	all := map[string]string{}
	keep := func(what, path string, e *onWire) {
		t.Helper()
		e.want(t, what, am.Success)
		if err := e.is(path, "string"); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		all[what] = e.at(path).text
	}
	urns, cred, old := strs(l.slice), creds(l.cred), strs(l.cred)
	users := []xmlrpc.Value{user(l.urn.String(), testKey)}
	keep("ad of version 3", "value", l.ask(3, "ListResources", cred, opts()))
	keep("ad of version 2", "value", l.ask(2, "ListResources", old, opts()))
	keep("ad of what is free", "value", l.ask(3, "ListResources", cred, opts(opt("geni_available", true))))
	keep("empty manifest", "value.geni_rspec", l.ask(3, "Describe", urns, cred, opts()))
	keep("manifest of Allocate", "value.geni_rspec", l.ask(3, "Allocate", l.slice, cred, asked, opts()))
	keep("manifest of Provision", "value.geni_rspec", l.ask(3, "Provision", urns, cred, opts(opt("geni_users", users))))
	l.site.settle()
	keep("manifest of Describe", "value.geni_rspec", l.ask(3, "Describe", urns, cred, opts()))
	keep("manifest of ListResources", "value", l.ask(2, "ListResources", old, opts(opt("geni_slice_urn", l.slice))))
	l.ask(3, "Delete", urns, cred, opts()).want(t, "Delete", am.Success)
	l.site.settle()
	keep("manifest of CreateSliver", "value", l.ask(2, "CreateSliver", l.slice, old, asked, users, xmlrpc.Struct{}))
	l.site.settle()
	keep("manifest after CreateSliver", "value.geni_rspec", l.ask(3, "Describe", urns, cred, opts()))
	l.ask(3, "Delete", urns, cred, opts()).want(t, "Delete", am.Success)
	l.site.settle()
	return all
}

func ascii(s string) error {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return fmt.Errorf("%q is not ASCII", s[max(0, i-20):min(len(s), i+20)])
		}
	}
	return nil
}

// TestTrap03OwnWritingIsASCII: a reader of old gives a string that is not ASCII
// another type, and fails. What we write is ASCII on the wire and after it;
// only what the client itself wrote is not.
func TestTrap03OwnWritingIsASCII(t *testing.T) {
	text := strings.Replace(string(inventory.SimulatedText(authority)), "description: Debian 12, server", "description: Debian für Gäste 犬", 1)
	alice := setting{inventory: text}.site(t).user("alice")
	l := &lab{caller: alice}
	l.slice, l.cred = alice.slice("s1", 48*time.Hour)
	for what, rspec := range l.rspecs(t, request(node("a"))) {
		if err := ascii(rspec); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if strings.HasPrefix(what, "ad of") && !strings.Contains(rspec, "Debian f&#") {
			t.Errorf("%s does not tell what the inventory says", what)
		}
	}
	for what, body := range l.refusals(t) {
		e := l.read(body)
		if err := first(ascii(body), ascii(e.at("output").text)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := ascii(l.send(3, "GetVersion")); err != nil {
		t.Error(err)
	}

	const own = "<!-- Straße 犬 --><node client_id=\"a\"><sliver_type name=\"raw-pc\"/><x:note xmlns:x=\"urn:x\">Gäste</x:note></node>"
	body := l.send(3, "Allocate", wire(t, l.slice), wire(t, creds(l.cred)), wire(t, request(own)), wire(t, opts()))
	if err := ascii(body); err != nil {
		t.Errorf("on the wire: %v", err)
	}
	manifest := l.read(body).want(t, "Allocate", am.Success).at("value.geni_rspec").text
	if !strings.Contains(manifest, "Straße 犬") || !strings.Contains(manifest, "Gäste") {
		t.Errorf("the client's own characters are not kept:\n%s", manifest)
	}
	if ascii(manifest) == nil {
		t.Error("the check of ASCII sees nothing")
	}
	if err := sliversOf(l.status(t))[0].is("geni_client_id", "string", "a"); err != nil {
		t.Error(err)
	}

	// Our sentences are ASCII even where they quote a request, and so is what a
	// provider said.
	e := l.ask(3, "Allocate", l.slice, creds(l.cred), request(`<node client_id="Gäste"><sliver_type name="größer"/></node>`), opts()).want(t, "an unknown type", am.SearchFailed)
	if err := ascii(e.at("output").text); err != nil || !strings.Contains(e.at("output").text, `gr\u00f6\u00dfer`) {
		t.Errorf("%v; output %q", err, e.at("output").text)
	}
	err := l.site.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool {
			x.Status, x.Error, x.Observed.Message = am.Status{Allocation: am.Provisioned, Operational: am.Failed}, "Gerät\nkaputt\x01", "läuft nicht"
			cs.PutSliver(x)
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]*onWire{
		"Status":       sliversOf(l.status(t))[0],
		"SliverStatus": l.ask(2, "SliverStatus", l.slice, strs(l.cred), xmlrpc.Struct{}).want(t, "SliverStatus", am.Success).at("value.geni_resources.0"),
	} {
		if err := s.is("geni_error", "string", `Ger\u00e4t kaputt\x01`); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := sliversOf(l.status(t))[0].is("geni_resource_status", "string", `l\u00e4uft nicht`); err != nil {
		t.Error(err)
	}
}

// aTime is the one form of a time that every client reads and jFed compares.
var aTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// timesOf are all the times that an answer tells, those in its RSpecs included.
func timesOf(e *onWire) (all []string) {
	for _, m := range e.find("member") {
		name, value := m.child("name").text, m.child("value").at("")
		if strings.HasSuffix(name, "_expires") {
			all = append(all, value.text)
		}
	}
	for _, s := range e.find("string") {
		for _, m := range regexp.MustCompile(`<rspec[^>]*>`).FindAllString(s.text, -1) {
			for _, x := range regexp.MustCompile(` (?:expires|generated|valid_until)="([^"]*)"`).FindAllStringSubmatch(m, -1) {
				all = append(all, x[1])
			}
		}
	}
	return all
}

func TestTrap11WholeSecondsAndZ(t *testing.T) {
	l := newLab(t)
	urns, cred, old := strs(l.slice), creds(l.cred), strs(l.cred)
	times := 0
	look := func(version int, method string, params ...xmlrpc.Value) {
		t.Helper()
		e := l.ask(version, method, params...).want(t, method, am.Success)
		for _, s := range timesOf(e) {
			if times++; !aTime.MatchString(s) {
				t.Errorf("%s of version %d tells the time %q", method, version, s)
			}
		}
	}
	fraction := l.site.clock().Add(time.Hour).Format("2006-01-02T15:04:05.123456+00:00")
	look(3, "ListResources", cred, opts())
	look(3, "Describe", urns, cred, opts())
	look(3, "Allocate", l.slice, cred, request(node("a")), opts(opt("geni_end_time", fraction)))
	look(3, "Renew", urns, cred, fraction, opts())
	look(3, "Provision", urns, cred, opts(opt("geni_end_time", fraction)))
	l.site.settle()
	look(3, "Renew", urns, cred, fraction, opts())
	look(3, "Status", urns, cred, opts())
	look(3, "Describe", urns, cred, opts())
	look(3, "PerformOperationalAction", urns, cred, "geni_start", opts())
	look(2, "SliverStatus", l.slice, old, xmlrpc.Struct{})
	look(2, "RenewSliver", l.slice, old, fraction, opts(opt("geni_extend_alap", true)))
	look(2, "ListResources", old, opts(opt("geni_slice_urn", l.slice)))
	look(3, "Delete", urns, cred, opts())
	look(2, "CreateSliver", l.slice, old, request(node("b")), []xmlrpc.Value{}, opts(opt("geni_end_time", fraction)))
	if times < 20 {
		t.Errorf("only %d times were seen: the test proves nothing", times)
	}
	for _, bad := range []string{"2030-01-31T12:00:00.5Z", "2030-01-31T12:00:00+00:00", "2030-01-31 12:00:00Z", "2030-01-31T12:00:00"} {
		if aTime.MatchString(bad) {
			t.Errorf("the check takes %q", bad)
		}
	}
}

// TestTrap12TimesAsClientsSendThem: the exact second is kept, whatever the form.
func TestTrap12TimesAsClientsSendThem(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"))
	l.ready(t)
	moment := l.site.clock().Add(30 * time.Hour)
	for i, layout := range []string{
		"2006-01-02T15:04:05Z", "2006-01-02T15:04:05+00:00", "2006-01-02T15:04:05.000Z", "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	} {
		want := moment.Add(time.Duration(i) * time.Minute)
		text := want.Format(layout)
		renewed := l.ask(3, "Renew", strs(l.slice), creds(l.cred), text, opts()).want(t, text, am.Success)
		shown := l.status(t)
		for _, e := range []*onWire{sliversOf(renewed)[0], sliversOf(shown)[0]} {
			if err := e.is("geni_expires", "string", want.Format("2006-01-02T15:04:05Z")); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		text = want.Add(time.Second).Format(layout)
		l.ask(2, "RenewSliver", l.slice, strs(l.cred), text, opts()).want(t, text, am.Success)
		if err := sliversOf(l.status(t))[0].is("geni_expires", "string", want.Add(time.Second).Format("2006-01-02T15:04:05Z")); err != nil {
			t.Errorf("%s in version 2: %v", text, err)
		}
	}
	// An offset counts towards UTC, and not the wrong way round as in one AM.
	want := moment.Add(time.Hour)
	east := want.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339)
	l.ask(3, "Renew", strs(l.slice), creds(l.cred), east, opts()).want(t, east, am.Success)
	if err := sliversOf(l.status(t))[0].is("geni_expires", "string", want.Format(time.RFC3339)); err != nil {
		t.Errorf("%s: %v", east, err)
	}
}

// zlibText checks what RFC 1950 says of the first two bytes before it unpacks.
func zlibText(s string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return "", fmt.Errorf("no base64: %v", err)
	}
	if len(raw) < 2 || raw[0]&0x0f != 8 || (int(raw[0])<<8|int(raw[1]))%31 != 0 {
		return "", fmt.Errorf("no zlib: it begins with %x", raw[:min(2, len(raw))])
	}
	return string(raw), nil
}

// rspecCalls are the calls that may be asked for a compressed RSpec.
func (l *lab) rspecCalls(t *testing.T, compressed ...xmlrpc.Member) map[string]*onWire {
	t.Helper()
	urns, cred, old := strs(l.slice), creds(l.cred), strs(l.cred)
	return map[string]*onWire{
		"ListResources of version 3": l.ask(3, "ListResources", cred, opts(compressed...)).want(t, "ad", am.Success).at("value"),
		"ListResources of version 2": l.ask(2, "ListResources", old, opts(compressed...)).want(t, "ad of version 2", am.Success).at("value"),
		"ListResources of a slice":   l.ask(2, "ListResources", old, append(opts(opt("geni_slice_urn", l.slice)), compressed...)).want(t, "manifest", am.Success).at("value"),
		"Describe":                   l.ask(3, "Describe", urns, cred, opts(compressed...)).want(t, "Describe", am.Success).at("value.geni_rspec"),
	}
}

func TestTrap13CompressedIsZlibInAString(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"))
	for what, e := range l.rspecCalls(t, opt("geni_compressed", true)) {
		if e.name != "string" {
			t.Errorf("%s: compressed it is <%s>, not <string>", what, e.name)
		}
		if _, err := zlibText(e.text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if rspec := unzip(t, e.text); !strings.Contains(rspec, "<rspec") {
			t.Errorf("%s: unpacked it is %.40q", what, rspec)
		}
	}
	for name, b := range map[string][]byte{"gzip": {0x1f, 0x8b, 8, 0}, "raw deflate": {0xed, 0xbd, 7, 0x60}, "nothing": {}} {
		if _, err := zlibText(base64.StdEncoding.EncodeToString(b)); err == nil {
			t.Errorf("the check takes %s", name)
		}
	}
}

func TestTrap14CompressedExactlyWhenAsked(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"))
	for _, yes := range []xmlrpc.Value{true, 1, "true", "1"} {
		for what, e := range l.rspecCalls(t, opt("geni_compressed", yes)) {
			if _, err := zlibText(e.text); err != nil {
				t.Errorf("%s, asked by %#v: %v", what, yes, err)
			}
		}
	}
	for _, no := range [][]xmlrpc.Member{nil, {opt("geni_compressed", false)}, {opt("geni_compressed", 0)}, {opt("compressed", true)}} {
		for what, e := range l.rspecCalls(t, no...) {
			if !strings.HasPrefix(e.text, "<") {
				t.Errorf("%s, asked by %v: %.20q", what, no, e.text)
			}
		}
	}
	// Methods that have no such option are not compressed either.
	on := opts(opt("geni_compressed", true))
	for what, e := range map[string]*onWire{
		"Allocate":  l.ask(3, "Allocate", l.slice, creds(l.cred), request(node("b")), on),
		"Provision": l.ask(3, "Provision", strs(l.slice), creds(l.cred), on),
	} {
		if s := e.want(t, what, am.Success).at("value.geni_rspec").text; !strings.HasPrefix(s, "<") {
			t.Errorf("%s: %.20q", what, s)
		}
	}
}

// TestTrap17WhoseNodesTheyAre: both names of this aggregate are known, and the
// nodes of others are no mistake.
func TestTrap17WhoseNodesTheyAre(t *testing.T) {
	const other = `<node client_id="theirs" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm" component_id="urn:publicid:IDN+other.example.org+node+x1"><sliver_type name="strange"/></node>`
	ours := func(id, manager string) string {
		return `<node client_id="` + id + `" component_manager_id="` + manager + `"><sliver_type name="raw-pc"/></node>`
	}
	l := newLab(t)
	for i, manager := range []string{
		"urn:publicid:IDN+example.org+authority+cm", "urn:publicid:IDN+example.org+authority+am", "URN:PUBLICID:IDN+Example.ORG+authority+cm",
	} {
		id := "n" + strconv.Itoa(i)
		e := l.ask(3, "Allocate", l.slice, creds(l.cred), request(ours(id, manager), strings.Replace(other, "theirs", "theirs"+id, 1)), opts()).want(t, manager, am.Success)
		if n := len(sliversOf(e)); n != 1 {
			t.Errorf("%s: %d slivers, want 1", manager, n)
		}
		manifest := e.at("value.geni_rspec").text
		for _, want := range []string{strings.Replace(other, "theirs", "theirs"+id, 1), `client_id="` + id + `"`} {
			if !strings.Contains(manifest, want) {
				t.Errorf("%s: the manifest lacks %s", manager, want)
			}
		}
		if strings.Count(manifest, "sliver_id=") != 1 {
			t.Errorf("%s: a sliver_id for another's node:\n%s", manager, manifest)
		}
	}
	// An authority whose name only begins alike is another.
	for _, manager := range []string{"urn:publicid:IDN+example.org:sub+authority+cm", "urn:publicid:IDN+example.org.evil.example+authority+cm", "urn:publicid:IDN+example.org+authority+sa"} {
		l.ask(3, "Allocate", l.slice, creds(l.cred), request(ours("x", manager)), opts()).want(t, manager, am.SearchFailed)
	}
	l.ask(3, "Allocate", l.slice, creds(l.cred), request(other), opts()).want(t, "nothing for us", am.SearchFailed)
}

// TestTrap25ManifestSaysWhatItIs: it names itself, its schema, and everything
// that was asked for by the names it was asked for.
func TestTrap25ManifestSaysWhatItIs(t *testing.T) {
	const asked = `<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" type="request"
 xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd">
<node client_id="left"><sliver_type name="raw-pc"/><interface client_id="left:0"/></node>
<node client_id="right"><sliver_type name="raw-pc"/><interface client_id="right:0"/></node>
<link client_id="wire"><interface_ref client_id="left:0"/><interface_ref client_id="right:0"/></link>
</rspec>`
	ids := func(e *onWire) (all []string) {
		for _, kind := range []string{"node", "interface", "link"} {
			for _, x := range e.find(kind) {
				all = append(all, kind+" "+x.attr["client_id"])
			}
		}
		slices.Sort(all)
		return all
	}
	request, err := readWire(asked)
	if err != nil {
		t.Fatal(err)
	}
	want := ids(request)
	check := func(root *onWire) error {
		at := root.attr["schemaLocation"]
		switch {
		case root.name != "rspec" || root.attr["type"] != "manifest":
			return fmt.Errorf("the root is <%s type=%q>", root.name, root.attr["type"])
		case !strings.Contains(at, "http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/manifest.xsd"):
			return fmt.Errorf("schemaLocation is %q", at)
		case strings.Contains(at, "request.xsd"):
			return fmt.Errorf("schemaLocation still names the request's schema")
		}
		if got := ids(root); !slices.Equal(got, want) {
			return fmt.Errorf("client_ids %q, want %q", got, want)
		}
		return nil
	}
	for what, rspec := range newLab(t).rspecs(t, asked) {
		if !strings.HasPrefix(what, "manifest") {
			continue
		}
		t.Run(what, func(t *testing.T) {
			bites(t, rspec, check,
				bite{"still a request", `type="request"`, `type="manifest"`},
				bite{"the request's schema", "request.xsd", "manifest.xsd"},
				bite{"a node is renamed", `"left2"`, `"left"`},
				bite{"an interface is lost", `<interface x="`, `<interface client_id="`},
			)
		})
	}
}

// TestTrap26LoginIsWhole: a client that converts the port and looks for one word
// in authentication finds both, whatever the provider told.
func TestTrap26LoginIsWhole(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"))
	l.ready(t, user(l.urn.String(), testKey))
	body := l.ask(3, "Describe", strs(l.slice), creds(l.cred), opts()).want(t, "Describe", am.Success).at("value.geni_rspec").text
	bites(t, body, func(e *onWire) error {
		logins := e.find("login")
		if len(logins) == 0 {
			return fmt.Errorf("no login")
		}
		for _, x := range logins {
			port, err := strconv.Atoi(x.attr["port"])
			switch {
			case err != nil || port < 1 || port > 65535:
				return fmt.Errorf("port %q", x.attr["port"])
			case x.attr["authentication"] != "ssh-keys":
				return fmt.Errorf("authentication %q", x.attr["authentication"])
			case x.attr["hostname"] == "" || x.attr["username"] == "":
				return fmt.Errorf("login %v", x.attr)
			}
			if _, _, err := net.SplitHostPort(x.attr["hostname"]); err == nil {
				return fmt.Errorf("the host name %q has a port", x.attr["hostname"])
			}
		}
		return nil
	},
		bite{"no port", `sport="22"`, ` port="22"`},
		bite{"another word", `"ssh-key"`, `"ssh-keys"`},
		bite{"no user", ` name="alice"`, ` username="alice"`},
		bite{"port in the host name", `:22"`, `.example.org"`},
	)
}

// TestTrap35DeclarationFirst: an XML declaration anywhere but at the very
// beginning makes a document that no parser takes.
func TestTrap35DeclarationFirst(t *testing.T) {
	check := func(s string) error {
		switch {
		case !strings.HasPrefix(s, "<?xml ") && !strings.HasPrefix(s, "<rspec"):
			return fmt.Errorf("it begins with %.30q", s)
		case strings.Count(s, "<?xml ") > 1 || strings.LastIndex(s, "<?xml ") > 0:
			return fmt.Errorf("a declaration inside")
		}
		return nil
	}
	for how, asked := range map[string]string{
		"as it should be":            request(node("a")),
		"no declaration":             strings.TrimPrefix(request(node("a")), `<?xml version="1.0" encoding="UTF-8"?>`+"\n"),
		"blank lines before it":      "\n  \n" + request(node("a")),
		"a byte order mark":          "\ufeff" + request(node("a")),
		"a comment after it":         strings.Replace(request(node("a")), "?>", "?><!-- mine -->", 1),
		"single quotes, lower case":  strings.Replace(request(node("a")), `version="1.0" encoding="UTF-8"`, `version='1.0' encoding='utf-8'`, 1),
		"another processing of mine": strings.Replace(request(node("a")), "?>", `?><?mine x="y"?>`, 1),
	} {
		for what, rspec := range newLab(t).rspecs(t, asked) {
			if err := check(rspec); err != nil {
				t.Errorf("request %s: %s: %v", how, what, err)
			}
			if _, err := readWire(rspec); err != nil {
				t.Errorf("request %s: %s: %v", how, what, err)
			}
		}
	}
	for _, bad := range []string{"\n<?xml version='1.0'?><rspec/>", "<!-- x --><?xml version='1.0'?><rspec/>", "<?xml version='1.0'?><?xml version='1.0'?><rspec/>", "\ufeff<rspec/>"} {
		if check(bad) == nil {
			t.Errorf("the check takes %.20q", bad)
		}
	}
}

// TestTrap37SliverURNsAreNeverUsedAgain: not after Delete, not for the same
// request, not for the same component.
func TestTrap37SliverURNsAreNeverUsedAgain(t *testing.T) {
	l := newLab(t)
	pc1 := `<node client_id="a" component_id="` + urn.URN{Authority: authority, Type: urn.Node, Name: "pc1"}.String() + `"/>`
	pattern := regexp.MustCompile(`^urn:publicid:IDN\+example\.org\+sliver\+[-a-zA-Z0-9_.]+$`)
	seen := map[string]bool{}
	for range 50 {
		for _, u := range l.allocate(t, pc1, node("b")) {
			if seen[u] {
				t.Fatalf("%s was used before", u)
			}
			if !pattern.MatchString(u) {
				t.Fatalf("%s is no name of a sliver", u)
			}
			seen[u] = true
		}
		l.ask(3, "Delete", strs(l.slice), creds(l.cred), opts()).want(t, "Delete", am.Success)
		l.site.settle()
	}
	for u := range seen {
		l.ask(3, "Status", strs(u), creds(l.cred), opts()).want(t, "a URN of the past", am.SearchFailed)
	}
}
