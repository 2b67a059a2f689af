package rspec

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// manifestGolden has the facts with which testdata/NAME.request.xml, or NAME.1.request.xml and so on
// for several Allocates, becomes NAME.manifest.xml. The digits in a name rule… are the number of
// the rule that it shows.
type manifestGolden struct {
	name string
	tell func(i int) NodeFacts // nil: facts
	// links are the facts of links, shown the own nodes that are (nil: all).
	links map[string]LinkFacts
	shown []string
	// options change those of the manifest.
	options func(*ManifestOptions)
	// invalid is the reason why the manifest is not valid by the schemas: it copies
	// something invalid.
	invalid string
	// final is the reason why the manifest cannot be requested again.
	final string
}

const copied = "copies what the request had no right to say"

var goldens = []manifestGolden{
	{name: "rule01-type"},
	{name: "rule02-schema-location"},
	{name: "rule02-extensions-added", tell: withAccounts(withLife)},
	{name: "rule02-extensions-there", tell: withAccounts(facts)},
	{name: "rule03-generated"},
	{name: "rule03-expires-is-generated", options: func(o *ManifestOptions) { o.Expires = o.Generated.Add(time.Millisecond) }},
	{name: "rule03-nothing-to-tell", options: func(o *ManifestOptions) { o.Expires, o.GeneratedBy = time.Time{}, "" }},
	{name: "rule04-declarations"},
	{name: "rule05-own-node"},
	{name: "rule06-attributes"},
	{name: "rule06-bound"},
	{name: "rule07-sliver-type-kept", tell: withType},
	{name: "rule07-sliver-type-added", tell: withType},
	{name: "rule07-image-kept", tell: withType},
	{name: "rule07-image-by-url", tell: withType, invalid: "the schema knows no url of images"},
	{name: "rule07-sliver-types-after-the-first-go", tell: withType}, // S5
	{name: "rule08-hardware-type", tell: func(i int) NodeFacts {
		f := facts(i)
		f.HardwareType = "pc3000"
		return f
	}},
	{name: "rule09-services-created", tell: withAccounts(facts)},
	{name: "rule09-services-kept", tell: withAccounts(facts)},
	{name: "rule10-pasted-manifest", tell: withAccounts(withLife)},
	{name: "rule10-nothing-to-tell"},
	{name: "rule10-granted", tell: func(i int) NodeFacts {
		f := facts(i)
		f.Granted = []Granted{{"cpu.count", "4"}, {"gpu.count", "1"}}
		return f
	}},
	{name: "rule10-notices", tell: func(i int) NodeFacts {
		f := facts(i)
		f.Notices = []string{"no <b>address</b>", "no ports"}
		return f
	}, links: map[string]LinkFacts{"l": {Notices: []string{"no route"}}}},
	{name: "rule11-pasted-advertisement", invalid: "available and cloud are for advertisements only"},
	{name: "rule12-interface", tell: withInterfaces(3)},
	{name: "rule12-address-assigned", tell: withInterfaces(2, "10.0.0.7/20", "fd00::7/64")},
	{name: "rule12-address-open", tell: withInterfaces(2, "10.0.0.7/20", "fd00::7/64")},
	{name: "rule12-address-kept", tell: withInterfaces(2, "10.0.0.7/20", "fd00::7/64")},
	{name: "rule13-link", tell: withInterfaces(1), links: map[string]LinkFacts{"told": {VLANTag: "1234"}, "unknown": {VLANTag: "1"}}},
	{name: "rule13-component-manager"},
	{name: "rule13-nothing-to-tell"},
	{name: "rule14-foreign-node", tell: withAccounts(withLife)},
	{name: "rule15-foreign-links", tell: withInterfaces(2), links: map[string]LinkFacts{"foreign": {VLANTag: "1"}, "shared": {VLANTag: "2"}}},
	{name: "rule16-unknown-extensions"},
	{name: "rule16-unknown-here", invalid: copied},
	{name: "rule17-character-data"},
	{name: "rule18-comments"},
	{name: "rule19-order", tell: withAccounts(facts)},
	{name: "rule20-unsupported"},
	{name: "rule21-allocated"},
	{name: "rule22-part-of-slice", shown: []string{"b"}, final: "a link refers to a node that is not shown"},
	{name: "rule23-several-allocates"},
	{name: "rule23-prefixes", tell: withAccounts(facts)},
	{name: "rule23-schema-locations"},
	{name: "rule23-inherited"},
	{name: "rule23-root-attributes"},
	{name: "rule23-around"},
	{name: "rule23-joined-link", tell: withInterfaces(1), links: map[string]LinkFacts{"lan": {VLANTag: "101"}}},
	{name: "rule23-joined-link-alone", tell: withInterfaces(1), shown: []string{"b", "c"}},
	{name: "rule23-part-of-slice", shown: []string{"a", "c"}},
	{name: "rule24-as-received"},
	{name: "rule25-empty-slice"},

	{name: "bare", tell: fullFacts},
	{name: "gui", tell: fullFacts, invalid: copied},
	{name: "gui-ascii", tell: fullFacts, invalid: copied, options: func(o *ManifestOptions) { o.ASCII = true }},
	{name: "prefixed", tell: fullFacts},
	{name: "resubmitted", tell: fullFacts},
	{name: "simple", tell: fullFacts},

	{name: "design4-front-matter"},
	{name: "design4-any-prefix", tell: withAccounts(withType)},
	{name: "design4-ascii", options: func(o *ManifestOptions) { o.ASCII = true }},
	{name: "design6-link-of-one"},
	{name: "design6-foreign-duplicates"},
	{name: "design6-routable-control-ip"},
	{name: "design6-packet-loss"},
}

func withType(i int) NodeFacts {
	f := facts(i)
	f.SliverType, f.DiskImage = "raw-pc", "urn:publicid:IDN+example.org+image+debian"
	return f
}

func withLife(i int) NodeFacts {
	f := facts(i)
	f.Sliver = &SliverInfo{
		Creator: urn.MustParse("urn:publicid:IDN+example.org+user+alice"), Created: someTime, Expires: someTime.Add(24 * time.Hour),
		State: "geni_failed", ResourceID: "rack 1", Error: `no "disk"`,
	}
	f.VNode = &VNode{fmt.Sprintf("pcvm%d", i), "pcvm"}
	return f
}

func withAccounts(tell func(int) NodeFacts) func(int) NodeFacts {
	return func(i int) NodeFacts {
		f := tell(i)
		f.Hosts = []Host{{fmt.Sprintf("pc%d.example.org", i), "192.0.2.10"}}
		f.Logins = []Login{{Hostname: "192.0.2.10", Username: "alice"}}
		f.Users = []User{{"alice", urn.MustParse("urn:publicid:IDN+example.org+user+alice"), []string{"ssh-ed25519 AAAA alice"}}}
		f.Proxies = []Proxy{{"gw@gw.example.org:22", "alice@192.0.2.10:22"}}
		return f
	}
}

// withInterfaces returns facts of n interfaces of node i, which are named a:0, b:0, …
func withInterfaces(n int, addresses ...string) func(int) NodeFacts {
	return func(i int) NodeFacts {
		f := facts(i)
		f.Interfaces = map[string]InterfaceFacts{"unknown": {MAC: "unknown"}}
		for k := range n {
			in := InterfaceFacts{
				ComponentID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+interface+pc%d:eth%d", i, k)),
				MAC:         fmt.Sprintf("02000000%02x%02x", i, k),
			}
			for _, a := range addresses {
				in.Addresses = append(in.Addresses, netip.MustParsePrefix(a))
			}
			f.Interfaces[fmt.Sprintf("%c:%d", 'a'+i, k)] = in
		}
		return f
	}
}

// reading returns the options for goldens.
func reading() ReadOptions {
	o := ours()
	o.CopyCrossLinks = true
	return o
}

func (g manifestGolden) file(name string) string { return filepath.Join("testdata", g.name+name) }

// requests are the texts of the golden's requests.
func (g manifestGolden) requests(t *testing.T) [][]byte {
	files, err := filepath.Glob(g.file(".[0-9].request.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(g.file(".request.xml")); err == nil {
		return [][]byte{text}
	}
	var list [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	return list
}

// write makes the manifest of requests.
func (g manifestGolden) write(t *testing.T, texts [][]byte) string {
	tell := g.tell
	if tell == nil {
		tell = facts
	}
	var parts []Part
	n := 0
	for _, text := range texts {
		p := Part{Request: mustParse(t, text, reading()), Nodes: map[string]NodeFacts{}, Links: g.links}
		for _, node := range p.Request.Nodes {
			if g.shown == nil || slices.Contains(g.shown, node.ClientID) {
				p.Nodes[node.ClientID] = tell(n)
			}
			n++
		}
		parts = append(parts, p)
	}
	o := options()
	if g.options != nil {
		g.options(&o)
	}
	return mustWrite(t, o, parts...)
}

// TestManifestRules compares the manifest of each golden with its file.
func TestManifestRules(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			texts := g.requests(t)
			if len(texts) == 0 && !strings.HasPrefix(g.name, "rule25") {
				t.Fatal("no requests")
			}
			got := g.write(t, texts)
			if *update {
				if err := os.WriteFile(g.file(".manifest.xml"), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(g.file(".manifest.xml"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-want +got (run with -update and review):\n%s", diff)
			}
			if again := g.write(t, texts); again != got { // rule 24
				t.Errorf("written again it is\n%s", again)
			}
			if g.final != "" {
				return
			}
			if ids, again := clientIDs(t, texts...), clientIDs(t, []byte(asRequest(got))); g.shown == nil && !slices.Equal(ids, again) {
				t.Errorf("client_ids %q became %q", ids, again)
			}
			twice := g.write(t, [][]byte{[]byte(asRequest(got))})
			if thrice := g.write(t, [][]byte{[]byte(asRequest(twice))}); thrice != twice {
				t.Errorf("asked for again and again it still changes:\n%s\n%s", twice, thrice)
			}
		})
	}
}

// clientIDs are those of nodes, links and interfaces, of several requests each
// once.
func clientIDs(t *testing.T, texts ...[]byte) []string {
	var list []string
	for _, text := range texts {
		for _, e := range mustParse(t, text, reading()).doc.elements {
			if id, has := e.Attr("", "client_id"); has && e.Space == Namespace {
				list = append(list, e.Local+" "+id)
			}
		}
	}
	slices.Sort(list)
	if len(texts) > 1 {
		return slices.Compact(list) // foreign nodes are shown once
	}
	return list
}

// TestEveryRuleHasAGolden checks that every rule has a golden file, and every golden file belongs
// to a rule.
func TestEveryRuleHasAGolden(t *testing.T) {
	covered := map[string]bool{}
	names := map[string]bool{}
	for _, g := range goldens {
		rule, _, _ := strings.Cut(g.name, "-")
		covered[rule] = true
		names[g.name] = true
	}
	for rule := 1; rule <= 25; rule++ {
		if !covered[fmt.Sprintf("rule%02d", rule)] {
			t.Errorf("rule %d has no golden", rule)
		}
	}
	for _, section := range []string{"design4", "design6"} {
		if !covered[section] {
			t.Errorf("%s has no golden", section)
		}
	}
	files, _ := filepath.Glob("testdata/*.xml")
	for _, file := range files {
		if name, _, _ := strings.Cut(filepath.Base(file), "."); !names[name] && !strings.HasSuffix(file, ".ad.xml") {
			t.Errorf("%s belongs to no golden", file)
		}
	}
}

// TestGoldensAreValid validates all manifests by our schemas.
func TestGoldensAreValid(t *testing.T) {
	for _, g := range goldens {
		text, err := os.ReadFile(g.file(".manifest.xml"))
		if err != nil {
			t.Fatal(err)
		}
		list, err := xmltree.Validate(text, schemas.Manifest, xmltree.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if (g.invalid == "") != (len(list) == 0) {
			t.Errorf("%s: %v; want invalid: %q", g.name, list, g.invalid)
		}
	}
}

// TestGoldensAreValidByThePublishedSchemas does the same with the published schemas.
func TestGoldensAreValidByThePublishedSchemas(t *testing.T) {
	dir := corpus(t)
	require.Tool(t, "xmllint")
	texts := map[string]string{}
	for _, g := range goldens {
		text, err := os.ReadFile(g.file(".manifest.xml"))
		if err != nil {
			t.Fatal(err)
		}
		texts[g.name] = string(bytes.TrimSpace(text))
	}
	list := findings(t, dir, "manifest.xsd", texts)
	for _, g := range goldens {
		if (g.invalid == "") != (len(list[g.name]) == 0) {
			t.Errorf("%s: %q; want invalid: %q", g.name, list[g.name], g.invalid)
		}
	}
}
