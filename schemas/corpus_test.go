package schemas_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// published are the files below schemas/ of the corpus to compare with. Those with several kinds are
// in the order of schemas.Kinds.
var (
	publishedCore = []string{"geni.net_resources_rspec_3/ad.xsd", "geni.net_resources_rspec_3/request.xsd", "geni.net_resources_rspec_3/manifest.xsd"}

	publishedExtensions = map[string][]string{
		"http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/slice-info/1":  {"", "", "groups.geni.net_exogeni_slice-info_1/slice_info.xsd"},
		"http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1": {"", "", "groups.geni.net_exogeni_sliver-info_1/sliver_info.xsd"},
		"http://hpn.east.isi.edu/rspec/ext/stitch/0.1/":                                allKinds("hpn.east.isi.edu_rspec_ext_stitch_0.1/stitch-schema.xsd"),
		"http://jfed.iminds.be/proxy/1.0":                                              requestAndManifest("jfed.iminds.be_proxy_1.0/proxy.xsd"),
		"http://jfed.iminds.be/rspec/ext/jfed/1":                                       allKinds("jfed.iminds.be_rspec_ext_jfed_1/jfed.xsd"),
		"http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1":                {"fed4fire_monitoring/advertisement.xsd", "fed4fire_monitoring/request.xsd", "fed4fire_monitoring/request.xsd"},
		"http://www.geni.net/resources/rspec/ext/opstate/1":                            {"geni.net_resources_rspec_ext_opstate_1/ad.xsd", "", ""},
		"http://www.geni.net/resources/rspec/ext/shared-vlan/1":                        {"geni.net_resources_rspec_ext_shared-vlan_1/ad-vlan.omnlib.xsd", "geni.net_resources_rspec_ext_shared-vlan_1/request-vlan.omnlib.xsd", "geni.net_resources_rspec_ext_shared-vlan_1/request-vlan.omnlib.xsd"},
		"http://www.protogeni.net/resources/rspec/ext/delay/1":                         requestAndManifest("protogeni.net_resources_rspec_ext_delay_1/request.xsd"),
		"http://www.protogeni.net/resources/rspec/ext/emulab/1":                        {"protogeni.net_resources_rspec_ext_emulab_1/ptop_extension.xsd", "protogeni.net_resources_rspec_ext_emulab_1/vtop_extension.xsd", "protogeni.net_resources_rspec_ext_emulab_1/vtop_extension.xsd"},
		"http://www.protogeni.net/resources/rspec/ext/pxe/1":                           allKinds("protogeni.net_resources_rspec_ext_pxe_1/request.xsd"),
		"http://www.protogeni.net/resources/rspec/ext/shared-vlan/1":                   requestAndManifest("protogeni.net_resources_rspec_ext_shared-vlan_1/request.xsd"),
		"http://www.protogeni.net/resources/rspec/ext/user/1":                          requestAndManifest("protogeni.net_resources_rspec_ext_user_1/manifest.xsd"),
	}
)

func requestAndManifest(file string) []string { return []string{"", file, file} }
func allKinds(file string) []string           { return []string{file, file, file} }

// difference is an intended difference between our schemas and the published ones. Each must occur in
// the tests below.
type difference struct {
	reason string
	// wider reports whether our schemas allow what an error of xmllint is about.
	wider func(k schemas.Kind, r remark) bool
	// stricter reports whether no published schema has an element, so that its content
	// is not validated either.
	stricter func(k schemas.Kind, e *xmltree.Element) bool
}

const emulab = "http://www.protogeni.net/resources/rspec/ext/emulab/1"

var differences = []difference{
	{
		reason: "a link of a manifest needs no vlantag",
		wider: func(k schemas.Kind, r remark) bool {
			return k == schemas.Manifest && r.msg == "Element '{http://www.geni.net/resources/rspec/3}link': The attribute 'vlantag' is required but missing."
		},
	},
	{
		reason: "a host of a manifest may have an ipv4",
		wider: func(k schemas.Kind, r remark) bool {
			return k == schemas.Manifest && r.msg == "Element '{http://www.geni.net/resources/rspec/3}host', attribute 'ipv4': The attribute 'ipv4' is not allowed."
		},
	},
	{
		reason: "Emulab's vnode has a hardware_type, which its file forgets",
		wider: func(k schemas.Kind, r remark) bool {
			return k != schemas.Advertisement && r.msg == "Element '{"+emulab+"}vnode', attribute 'hardware_type': The attribute 'hardware_type' is not allowed."
		},
	},
	{
		reason: "Emulab uses elements that its files do not declare",
		stricter: func(k schemas.Kind, e *xmltree.Element) bool {
			return e.Space == emulab && slices.Contains([]string{
				"rspec_routable_addresses", "routable_control_ip", "xen", "vlan_tagging", "link_multiplexing", "best_effort", "link_attribute", "openflow_controller",
			}, e.Local)
		},
	},
	{
		reason: "the published file of monitoring does not compile",
		stricter: func(k schemas.Kind, e *xmltree.Element) bool {
			return e.Space == "http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1"
		},
	},
	{
		reason: "monitoring is published under one of its two namespaces",
		stricter: func(k schemas.Kind, e *xmltree.Element) bool {
			return e.Space == "http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1"
		},
	},
	{
		reason: "the extensions of Patchbay are not published",
		stricter: func(k schemas.Kind, e *xmltree.Element) bool {
			return strings.HasPrefix(e.Space, schemas.ExtensionBase+"/") ||
				slices.ContainsFunc(e.Attrs, func(a xmltree.Attr) bool { return strings.HasPrefix(a.Space, schemas.ExtensionBase+"/") })
		},
	},
	{
		reason: "the user extension is published under one of its two namespaces",
		stricter: func(k schemas.Kind, e *xmltree.Element) bool {
			return e.Space == "http://www.geni.net/resources/rspec/ext/user/1"
		},
	},
}

// comparison compares our verdicts with those of the published schemas.
type comparison struct {
	core, known [3]string // published schema files, by kind
	used        map[string]int
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	dir := require.Shared(t, "schemas")
	tool := require.Tool(t, "xmllint")
	sample := filepath.Join(t.TempDir(), "sample.xml")
	if err := os.WriteFile(sample, []byte("<x/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	compiles := make(map[string]bool)
	c := &comparison{used: make(map[string]int)}
	for i, k := range schemas.Kinds() {
		c.core[i] = filepath.Join(dir, publishedCore[i])
		var s strings.Builder
		fmt.Fprintf(&s, "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'>\n<xs:import namespace=%q schemaLocation=%q/>\n", schemas.Namespace, c.core[i])
		for _, ns := range slices.Sorted(maps.Keys(publishedExtensions)) {
			file := publishedExtensions[ns][i]
			if file == "" {
				continue
			}
			if _, tried := compiles[file]; !tried {
				out, _ := exec.Command(tool, "--nonet", "--noout", "--schema", filepath.Join(dir, file), sample).CombinedOutput()
				compiles[file] = !strings.Contains(string(out), "failed to compile")
				if !compiles[file] {
					t.Logf("left out, for it does not compile: %s", file)
				}
			}
			if compiles[file] {
				fmt.Fprintf(&s, "<xs:import namespace=%q schemaLocation=%q/>\n", ns, filepath.Join(dir, file))
			}
		}
		s.WriteString("</xs:schema>")
		c.known[i] = filepath.Join(t.TempDir(), string(k)+".xsd")
		if err := os.WriteFile(c.known[i], []byte(s.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// judge compares the verdicts on docs, which are all of one kind. It returns how many were validated
// and how many of them are invalid by both.
func (c *comparison) judge(t *testing.T, mode string, docs []document) (judged, invalid int) {
	t.Helper()
	k := docs[0].kind
	i := slices.Index(schemas.Kinds(), k)
	theirs, schema := c.core[i], xmltree.Core
	if mode == "known" {
		theirs, schema = c.known[i], xmltree.Known
	}
	wait := xmllint(t, theirs, docs)
	trees := ours(t, schema, docs)
	complaints := 0
	for n, v := range wait() {
		d := trees[n]
		// Without the intended differences, the findings of both must give the same
		// verdict.
		var why []string
		bad := [2]bool{}
		beyond := func(e *xmltree.Element) int {
			if mode == "core" {
				return -1
			}
			return slices.IndexFunc(differences, func(x difference) bool { return x.stricter != nil && inside(e, k, x.stricter) })
		}
		for _, r := range v.found {
			meant := d.meant(r)
			if len(meant) == 0 {
				t.Fatalf("%s (%s): there is no such element: %v", docs[n].name, mode, r)
			}
			switch at := slices.IndexFunc(differences, func(x difference) bool { return x.wider != nil && x.wider(k, r) }); {
			case at >= 0:
				why = append(why, differences[at].reason)
			case beyond(meant[0]) >= 0:
				why = append(why, differences[beyond(meant[0])].reason)
			case len(d.found) < xmltree.MaxFindings && !d.told(meant):
				t.Errorf("%s (%s): published, but not by us: %v\nours: %v\n%s", docs[n].name, mode, r, few(d.found), short(docs[n].text))
				complaints++
				bad[0] = true
			default:
				bad[0] = true
			}
		}
		for _, f := range d.found {
			if at := beyond(d.element(f)); at >= 0 {
				why = append(why, differences[at].reason)
			} else {
				bad[1] = true
			}
		}
		if bad[0] != bad[1] {
			t.Errorf("%s (%s): published valid: %v, ours: %v, and no reason\npublished: %v\nours: %v\n%s", docs[n].name, mode, !bad[0], !bad[1], few(v.found), few(d.found), short(docs[n].text))
			complaints++
		}
		if valid := len(d.found) == 0; valid != v.valid {
			slices.Sort(why)
			why = slices.Compact(why)
			for _, w := range why {
				c.used[w]++
			}
			if own, _ := d.root.Attr("", "type"); own == string(k) && !strings.HasPrefix(docs[n].name, "mutant") {
				t.Logf("%s (%s): published valid: %v, ours: %v: %s", docs[n].name, mode, v.valid, valid, strings.Join(why, "; "))
			}
		} else if !valid {
			invalid++
		}
		judged++
		if complaints > 20 {
			t.Fatal("and more")
		}
	}
	return judged, invalid
}

// inside reports whether e, or an element around it, is so.
func inside(e *xmltree.Element, k schemas.Kind, so func(schemas.Kind, *xmltree.Element) bool) bool {
	return e != nil && (so(k, e) || inside(e.Parent, k, so))
}

func few[T any](all []T) []T { return all[:min(len(all), 5)] }

func short(b []byte) string { return string(b[:min(len(b), 1500)]) }

// explained fails if a difference does not occur.
func (c *comparison) explained(t *testing.T) {
	t.Helper()
	for _, d := range differences {
		t.Logf("%5d documents differ: %s", c.used[d.reason], d.reason)
		if c.used[d.reason] == 0 {
			t.Errorf("nothing differs for the reason that %s; drop it", d.reason)
		}
	}
}

// corpus are the readable documents of the corpus, in the form in which they are really parsed, and
// those of testdata. Daily every second document of the corpus is among them, and all in check-full.
func corpus(t *testing.T) []document {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "rspecs"), "*", "*"))
	if err != nil || len(files) < 400 {
		t.Fatalf("%d files in the corpus, %v", len(files), err)
	}
	own, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(own) < 3 {
		t.Fatalf("%d files in testdata, %v", len(own), err)
	}
	var docs []document
	for i, file := range append(files, own...) {
		if i < len(files) && !require.Daily(i, 2) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
		err = xmltree.Parse(text, xmltree.Limits{}, func(d *xmltree.Doc) error {
			docs = append(docs, document{name: name, text: d.Source})
			return nil
		})
		if err != nil && !strings.HasPrefix(name, "malformed/") {
			t.Logf("not read: %s: %v", name, err)
		}
	}
	return docs
}

// TestCorpusVerdicts validates every document as every kind, with and without extensions, by our
// schemas and by the published ones.
func TestCorpusVerdicts(t *testing.T) {
	c := newComparison(t)
	docs := corpus(t)
	docs = append(docs, mutants(t, docs)...)
	byKind := make(map[schemas.Kind][]document)
	for _, d := range docs {
		if d.kind != "" {
			byKind[d.kind] = append(byKind[d.kind], d)
			continue
		}
		for _, k := range schemas.Kinds() {
			byKind[k] = append(byKind[k], document{name: d.name, text: d.text, kind: k})
		}
	}
	for _, k := range schemas.Kinds() {
		for _, mode := range []string{"core", "known"} {
			docs := byKind[k]
			if mode == "core" {
				docs = slices.DeleteFunc(slices.Clone(docs), func(d document) bool { return d.extension })
			}
			judged, invalid := c.judge(t, mode, docs)
			t.Logf("%s, %s: %d documents, %d invalid by both", k, mode, judged, invalid)
		}
	}
	c.explained(t)
}
