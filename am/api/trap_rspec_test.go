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
	"patchbay/inventory"
)

// rspecs returns the RSpecs of all methods: the advertisement, and the manifests of a slice made in
// version 3 and of one made in version 2.
func (w *world) rspecs(asked string) map[string]string {
	w.t.Helper()
	w.texts["$asked"] = asked
	all := map[string]string{}
	w.play("alice owns s1 48h")
	for _, step := range [][3]string{
		{"ad of version 3", "ListResources", "value"},
		{"ad of version 2", "ListResources2", "value"},
		{"ad of what is free", "ListResources geni_available=true", "value"},
		{"empty manifest", "Describe s1", "value.geni_rspec"},
		{"manifest of Allocate", "Allocate s1 $asked", "value.geni_rspec"},
		{"manifest of Provision", "Provision s1 geni_users=alice", "value.geni_rspec"},
		{"manifest of Describe", "Describe s1", "value.geni_rspec"},
		{"manifest of ListResources", "ListResources2 s1", "value"},
		{"", "Delete s1", "value"},
		{"manifest of CreateSliver", "CreateSliver s1 $asked users=alice", "value"},
		{"manifest after CreateSliver", "Describe s1", "value.geni_rspec"},
		{"", "Delete s1", "value"},
	} {
		e := w.play("alice " + step[1]).answer.at(step[2])
		if w.settle(); step[0] != "" {
			if all[step[0]] = e.text; e.name != "string" {
				w.t.Errorf("%s is <%s>", step[0], e.name)
			}
		}
	}
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

// TestTrap03OwnWritingIsASCII checks that answers are ASCII, because old readers fail at strings
// that are not. Quotations of a request or a provider are escaped. Only the client's own text in a
// manifest is not ASCII after decoding.
func TestTrap03OwnWritingIsASCII(t *testing.T) {
	text := strings.Replace(string(inventory.SimulatedText(authority)), "description: Debian 12, server", "description: Debian für Gäste 犬", 1)
	w := setting{inventory: text}.world(t, "own", `<!-- Straße 犬 --><node client_id="a"><sliver_type name="raw-pc"/><x:note xmlns:x="urn:x">Gäste</x:note></node>`, "unknown", `<node client_id="Gäste"><sliver_type name="größer"/></node>`)
	for what, rspec := range w.rspecs(request(node("a"))) {
		if err := ascii(rspec); err != nil || strings.HasPrefix(what, "ad of") && !strings.Contains(rspec, "Debian f&#") {
			t.Errorf("%s: %v, in %.300s", what, err, rspec)
		}
	}
	for _, e := range refused(t) {
		if err := ascii(e.everything()); err != nil {
			t.Error(err)
		}
	}
	body := w.who("alice").send(3, "Allocate", wire(t, w.urns["s1"]), wire(t, creds(w.creds["s1"])), wire(t, request(w.texts["$own"])), wire(t, opts()))
	if err := ascii(body); err != nil {
		t.Errorf("on the wire: %v", err)
	}
	w.play(`
		alice Describe s1 -> "Straße 犬" "Gäste" a:allocated
		alice Allocate s1 $unknown -> SEARCHFAILED 'gr\u00f6\u00dfer'
	`)
	if err := ascii(w.answer.member("output")); err != nil {
		t.Error(err)
	}
	w.edit(t, func(x *am.Sliver) {
		x.Status, x.Error, x.Observed.Message = am.Status{Allocation: am.Provisioned, Operational: am.Failed}, "Gerät\nkaputt\x01", "läuft nicht"
	})
	w.play(`
		alice Status s1 -> value.geni_slivers.0.geni_error=<string>'Ger\u00e4t kaputt\x01' value.geni_slivers.0.geni_resource_status=<string>'l\u00e4uft nicht'
		alice SliverStatus s1 -> value.geni_resources.0.geni_error=<string>'Ger\u00e4t kaputt\x01'
	`)
}

// TestTrap11WholeSecondsAndZ checks that every time in a member or an RSpec has whole seconds and
// ends with Z. Every client reads this form, and jFed compares times as text.
func TestTrap11WholeSecondsAndZ(t *testing.T) {
	w := newWorld(t, "fraction", began.Add(duration("1h")).Format("2006-01-02T15:04:05.123456+00:00"))
	tells := regexp.MustCompile(`(?:_expires</name><value><string>| (?:expires|generated|valid_until)=&quot;| (?:expires|generated|valid_until)=")([^"&<]*)`)
	whole := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	times := 0
	w.hear = func(body string) {
		for _, m := range tells.FindAllStringSubmatch(body, -1) {
			if times++; !whole.MatchString(m[1]) {
				t.Errorf("the time %q in %s", m[1], body)
			}
		}
	}
	w.play(`
		alice owns s1 24h
		alice ListResources
		alice Describe s1
		alice Allocate s1 a geni_end_time=$fraction
		alice Renew s1 $fraction
		alice Provision s1 geni_end_time=$fraction
		settle
		alice Renew s1 $fraction
		alice Status s1
		alice Describe s1
		alice PerformOperationalAction s1 geni_start
		alice SliverStatus s1
		alice ListResources2 s1
		alice Delete s1
		alice CreateSliver s1 b geni_end_time=$fraction
	`)
	if times < 20 {
		t.Errorf("only %d times were seen: the test proves nothing", times)
	}
}

// TestTrap12TimesAsClientsSendThem checks that each form of a time is read to the exact second, and
// that an offset is subtracted, not added.
func TestTrap12TimesAsClientsSendThem(t *testing.T) {
	w := newWorld(t).play("alice owns s1 10d\nalice Allocate s1 a\nalice Provision s1")
	for i, layout := range []string{
		"2006-01-02T15:04:05Z", "2006-01-02T15:04:05+00:00", "2006-01-02T15:04:05.000Z", "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "east",
	} {
		at := fmt.Sprintf("%dh", 30+i)
		moment := began.Add(duration(at))
		if w.texts["$time"] = moment.Format(layout); layout == "east" {
			w.texts["$time"] = moment.In(time.FixedZone("", 7200)).Format(time.RFC3339)
		}
		w.play("alice Renew s1 $time -> @+" + at + "\nalice Status s1 -> @+" + at + "\nalice Renew s1 +1h\nalice RenewSliver s1 $time\nalice SliverStatus s1 -> @+" + at)
	}
}

// isZlib checks the first two bytes by RFC 1950, then decompresses.
func isZlib(s string) error {
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return fmt.Errorf("no base64: %v", err)
	}
	if len(raw) < 2 || raw[0]&0x0f != 8 || (int(raw[0])<<8|int(raw[1]))%31 != 0 {
		return fmt.Errorf("no zlib: it begins with %x", raw[:min(2, len(raw))])
	}
	return nil
}

// rspecCalls are the calls that may be asked for a compressed RSpec.
func rspecCalls(w *world, option string) (all []*onWire) {
	for call, path := range map[string]string{"ListResources": "value", "ListResources2": "value", "ListResources2 s1": "value", "Describe s1": "value.geni_rspec"} {
		all = append(all, w.play("alice "+call+" "+option).answer.at(path))
	}
	return all
}

func TestTrap13CompressedIsZlibInAString(t *testing.T) {
	for _, e := range rspecCalls(newWorld(t).play("alice owns s1 24h\nalice Allocate s1 a"), "geni_compressed=true") {
		if err := isZlib(e.text); err != nil || e.name != "string" || !strings.Contains(unzip(t, e.text), "<rspec") {
			t.Errorf("<%s> %v", e.name, err)
		}
	}
}

// TestTrap14CompressedExactlyWhenAsked checks that an RSpec is compressed only if geni_compressed
// is true. Allocate and Provision, which have no such option, never compress.
func TestTrap14CompressedExactlyWhenAsked(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h\nalice Allocate s1 a")
	for option, want := range map[string]bool{
		"geni_compressed=true": true, "geni_compressed=1": true, "geni_compressed='true'": true, "": false, "geni_compressed=false": false, "geni_compressed=0": false, "compressed=true": false,
	} {
		for _, e := range rspecCalls(w, option) {
			if (isZlib(e.text) == nil) != want || strings.HasPrefix(e.text, "<") == want {
				t.Errorf("asked by %q: %.20q", option, e.text)
			}
		}
	}
	w.play(`
		alice Allocate s1 b geni_compressed=true -> "<rspec"
		alice Provision s1 geni_compressed=true -> "<rspec"
	`)
}

// TestTrap17ManagersOfNodes checks that both names of this aggregate are accepted as component
// manager, and that nodes of other aggregates are copied. An authority whose name only begins like
// ours is another one.
func TestTrap17ManagersOfNodes(t *testing.T) {
	const other = `<node client_id="theirs" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm" component_id="urn:publicid:IDN+other.example.org+node+x1"><sliver_type name="strange"/></node>`
	w := newWorld(t, "other", other).play("alice owns s1 24h\nalice Allocate s1 $other -> SEARCHFAILED")
	for manager, want := range map[string]string{
		"urn:publicid:IDN+example.org+authority+cm":              `ours:allocated $other 'client_id="ours"' 1*'sliver_id='`,
		"urn:publicid:IDN+example.org+authority+am":              `ours:allocated $other 'client_id="ours"' 1*'sliver_id='`,
		"URN:PUBLICID:IDN+Example.ORG+authority+cm":              `ours:allocated $other 'client_id="ours"' 1*'sliver_id='`,
		"urn:publicid:IDN+example.org:sub+authority+cm":          "SEARCHFAILED",
		"urn:publicid:IDN+example.org.evil.example+authority+cm": "SEARCHFAILED",
		"urn:publicid:IDN+example.org+authority+sa":              "SEARCHFAILED",
	} {
		w.texts["$ours"] = `<node client_id="ours" component_manager_id="` + manager + `"><sliver_type name="raw-pc"/></node>`
		if w.play("alice Allocate s1 $ours $other -> " + want); want != "SEARCHFAILED" {
			w.play("alice Delete s1\nsettle")
		}
	}
}

// TestTrap25ManifestHasItsTypeAndSchema checks that a manifest has the type and schema of a manifest, and
// all nodes, interfaces and links of the request under their names.
func TestTrap25ManifestHasItsTypeAndSchema(t *testing.T) {
	const asked = `<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" type="request"
 xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd">
<node client_id="left"><sliver_type name="raw-pc"/><interface client_id="left:0"/></node>
<node client_id="right"><sliver_type name="raw-pc"/><interface client_id="right:0"/></node>
<link client_id="wire"><interface_ref client_id="left:0"/><interface_ref client_id="right:0"/></link>
</rspec>`
	w := newWorld(t)
	ids := func(text string) (root *onWire, all []string) {
		root = w.who("alice").read(text)
		for _, kind := range []string{"node", "interface", "link"} {
			for _, x := range root.find(kind) {
				all = append(all, kind+" "+x.attr["client_id"])
			}
		}
		slices.Sort(all)
		return root, all
	}
	_, want := ids(asked)
	for what, rspec := range w.rspecs(asked) {
		if !strings.HasPrefix(what, "manifest") {
			continue
		}
		root, got := ids(rspec)
		at := root.attr["schemaLocation"]
		if root.name != "rspec" || root.attr["type"] != "manifest" || strings.Contains(at, "request.xsd") ||
			!strings.Contains(at, "http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/manifest.xsd") || !slices.Equal(got, want) {
			t.Errorf("%s: <%s %v> of %q, want %q", what, root.name, root.attr, got, want)
		}
	}
}

// TestTrap26LoginIsComplete checks that each login has a numeric port and authentication="ssh-keys",
// as clients require.
func TestTrap26LoginIsComplete(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h\nalice Allocate s1 a\nalice Provision s1 geni_users=alice\nsettle\nalice Describe s1")
	logins := w.who("alice").read(w.answer.at("value.geni_rspec").text).find("login")
	if len(logins) == 0 {
		t.Error("no login")
	}
	for _, x := range logins {
		port, err := strconv.Atoi(x.attr["port"])
		_, _, split := net.SplitHostPort(x.attr["hostname"])
		if err != nil || port < 1 || port > 65535 || x.attr["authentication"] != "ssh-keys" || x.attr["hostname"] == "" || x.attr["username"] == "" || split == nil {
			t.Errorf("login %v", x.attr)
		}
	}
}

// TestTrap35DeclarationFirst checks that an RSpec has its XML declaration only at the very
// beginning. Parsers refuse it anywhere else.
func TestTrap35DeclarationFirst(t *testing.T) {
	good := request(node("a"))
	for how, asked := range map[string]string{
		"as it should be":            good,
		"no declaration":             strings.TrimPrefix(good, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"),
		"blank lines before it":      "\n  \n" + good,
		"a byte order mark":          "\ufeff" + good,
		"a comment after it":         strings.Replace(good, "?>", "?><!-- mine -->", 1),
		"single quotes, lower case":  strings.Replace(good, `version="1.0" encoding="UTF-8"`, `version='1.0' encoding='utf-8'`, 1),
		"another processing of mine": strings.Replace(good, "?>", `?><?mine x="y"?>`, 1),
	} {
		w := newWorld(t)
		for what, rspec := range w.rspecs(asked) {
			w.who("alice").read(rspec)
			if !strings.HasPrefix(rspec, "<?xml ") && !strings.HasPrefix(rspec, "<rspec") || strings.LastIndex(rspec, "<?xml ") > 0 {
				t.Errorf("request %s: %s: it begins with %.30q, or has a declaration inside", how, what, rspec)
			}
		}
	}
}

// TestTrap37SliverURNsAreNeverUsedAgain repeats the same request for the same component after
// Delete. Each sliver gets a new URN.
func TestTrap37SliverURNsAreNeverUsedAgain(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h")
	pattern := regexp.MustCompile(`^urn:publicid:IDN\+example\.org\+sliver\+[-a-zA-Z0-9_.]+$`)
	seen := map[string]bool{}
	for range 50 {
		w.play("alice Allocate s1 a@pc1 b")
		for _, u := range []string{w.urns["s1.a"], w.urns["s1.b"]} {
			if seen[u] || !pattern.MatchString(u) {
				t.Fatalf("%s was used before, or is no name of a sliver", u)
			}
			seen[u] = true
		}
		w.play("alice Delete s1\nsettle")
	}
	w.play("alice Status s1.a -> SEARCHFAILED")
}
