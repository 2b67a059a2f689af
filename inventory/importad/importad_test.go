package importad

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/schemas"
)

var update = flag.Bool("update", false, "write the goldens anew")

// load reads the inventory that was made.
func load(t testing.TB, s *Result) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.Parse(s.Text, "inventory.yaml", s.Authority)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text)
	}
	return inv
}

func TestGoldens(t *testing.T) {
	for file, authority := range map[string]string{"geni3": "example.net", "protogeni2": "", "protogeni02": ""} {
		t.Run(file, func(t *testing.T) {
			ad, err := os.ReadFile(filepath.Join("testdata", file+".xml"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Read(ad, Options{Authority: authority, File: file + ".xml"})
			if err != nil {
				t.Fatal(err)
			}
			load(t, s)
			golden := filepath.Join("testdata", file+".yaml")
			if *update {
				if err := os.WriteFile(golden, s.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(s.Text)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

const head = `<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1" type="advertisement">`

// node is an element of an advertisement, of example.net.
func nodeOf(name, attributes, inside string) string {
	return fmt.Sprintf(`<node component_id="urn:publicid:IDN+example.net+node+%s" component_manager_id="urn:publicid:IDN+example.net+authority+cm" %s>%s</node>`, name, attributes, inside)
}

func capability(feature, values string) string {
	return fmt.Sprintf(`<m:capability xmlns:m="%s" feature="%s" %s/>`, schemas.Match, feature, values)
}

func TestWhatIsKept(t *testing.T) {
	port := func(id string) string {
		return `<interface component_id="urn:publicid:IDN+example.net+interface+` + id + `"/>`
	}
	wire := func(id string, ends ...string) string {
		text := `<link component_id="urn:publicid:IDN+example.net+link+` + id + `">`
		for _, e := range ends {
			text += `<interface_ref component_id="urn:publicid:IDN+example.net+interface+` + e + `"/>`
		}
		return text + `</link>`
	}
	for _, tt := range []struct {
		rule, text string
		holds      func(*inventory.Inventory, *Result) bool
	}{
		{"ids of nodes", nodeOf("pc1", `exclusive="true"`, ""), func(v *inventory.Inventory, s *Result) bool {
			c, ok := v.Component(urn.MustParse("urn:publicid:IDN+example.net+node+pc1"))
			return ok && c.Exclusive && c.Name == "pc1" && v.Managers[0].Equal(urn.MustParse("urn:publicid:IDN+example.net+authority+cm"))
		}},
		{"a node without manager is its authority's", `<node component_id="urn:publicid:IDN+example.net+node+pc1" exclusive="true"/>`, func(v *inventory.Inventory, s *Result) bool {
			return s.Authority == "example.net" && len(v.Components) == 1
		}},
		{"one id is one component", nodeOf("pc1", `exclusive="true"`, "") + nodeOf("pc1", `exclusive="false"`, ""), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Components) == 1 && v.Components[0].Exclusive
		}},
		{"one name is two components", nodeOf("a", `component_name="x"`, "") + nodeOf("b", `component_name="x"`, ""), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Components) == 2 && v.Components[0].Name == "x" && v.Components[1].Name == "x-2"
		}},
		{"a name that another gets", nodeOf("a", `component_name="x"`, "") + nodeOf("b", `component_name="x-2"`, "") + nodeOf("c", `component_name="x"`, ""), func(v *inventory.Inventory, s *Result) bool {
			return v.Components[1].Name == "x-2" && v.Components[2].Name == "x-3"
		}},
		{"unavailable is not drained", nodeOf("a", `exclusive="true"`, `<available now="false"/>`), func(v *inventory.Inventory, s *Result) bool {
			return !v.Components[0].Drained
		}},
		{"what offers nothing is drained, if others do", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"/>`) + nodeOf("sw", `exclusive="true"`, ""), func(v *inventory.Inventory, s *Result) bool {
			return !v.Components[0].Drained && v.Components[1].Drained
		}},
		{"where nothing has a sliver type, any will do", nodeOf("a", `exclusive="true"`, ""), func(v *inventory.Inventory, s *Result) bool {
			x, ok := v.SliverType("plab-vserver")
			return ok && x == v.DefaultSliverType && !v.Components[0].Drained
		}},
		{"an old name of a sliver type is an alias", nodeOf("a", `exclusive="true"`, `<sliver_type name="big vm"/>`), func(v *inventory.Inventory, s *Result) bool {
			x, ok := v.SliverType("big vm")
			return ok && x.Name == "big-vm"
		}},
		{"images by URN, by name and by URL", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"><disk_image name="urn:publicid:IDN+example.org+image+one"/><disk_image name="two" default="true"/><disk_image url="https://example.org/three"/></sliver_type>`), func(v *inventory.Inventory, s *Result) bool {
			for _, n := range []string{"urn:publicid:IDN+example.org+image+one", "two", "https://example.org/three", "urn:publicid:IDN+example.net+image+two"} {
				if _, ok := v.DefaultSliverType.Image(n); !ok {
					return false
				}
			}
			return v.DefaultSliverType.DefaultImage.Name == "two"
		}},
		{"an image by name and by its URN is one", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"><disk_image name="two"/><disk_image name="urn:publicid:IDN+example.net+image+two"/></sliver_type>`), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Images) == 1
		}},
		{"a switch is one link", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"/>`+port("a:1")) + nodeOf("b", `exclusive="true"`, `<sliver_type name="x"/>`+port("b:1")) +
			nodeOf("sw", `exclusive="true"`, port("sw:1")+port("sw:2")) + wire("a-sw", "a:1", "sw:1") + wire("b-sw", "b:1", "sw:2"), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Links) == 1 && v.Links[0].Name == "sw" && len(v.Links[0].Interfaces) == 4
		}},
		{"a cloud joins nothing", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"/>`+port("a:1")) + nodeOf("b", `exclusive="true"`, `<sliver_type name="x"/>`+port("b:1")) +
			nodeOf("net", `exclusive="true"`, `<cloud/>`+port("net:1")+port("net:2")) + wire("a-net", "a:1", "net:1") + wire("b-net", "b:1", "net:2"), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Links) == 2
		}},
		{"a link of its own keeps its id", nodeOf("a", `exclusive="true"`, port("a:1")) + nodeOf("b", `exclusive="true"`, port("b:1")) + wire("a-b", "a:1", "b:1"), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Links) == 1 && v.Links[0].URN.String() == "urn:publicid:IDN+example.net+link+a-b"
		}},
		{"links of one id", nodeOf("a", `exclusive="true"`, port("a:1")+port("a:2")) + nodeOf("b", `exclusive="true"`, port("b:1")+port("b:2")) + wire("a-b", "a:1", "b:1") + wire("a-b", "a:2", "b:2"), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Links) == 2
		}},
		{"a link that names one interface twice", nodeOf("a", `exclusive="true"`, port("a:1")) + wire("l", "a:1", "a:1"), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Links) == 1 && len(v.Links[0].Interfaces) == 1
		}},
		{"interfaces of two nodes with one id", nodeOf("a", `exclusive="true"`, port("a:1")) + nodeOf("b", `exclusive="true"`, port("a:1")), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Interfaces) == 1 && v.Interfaces[0].Component.Name == "a"
		}},
		{"interfaces with one name", nodeOf("a", `exclusive="true"`, `<interface component_name="e" component_id="urn:publicid:IDN+example.net+interface+1"/><interface component_name="e" component_id="urn:publicid:IDN+example.net+interface+2"/>`), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Interfaces) == 2
		}},
		{"free slots are the capacity", nodeOf("a", `exclusive="false"`, `<hardware_type name="vm"><e:node_type type_slots="7"/></hardware_type>`), func(v *inventory.Inventory, s *Result) bool {
			return v.Components[0].Capacity.Slots == 7
		}},
		{"other elements are counted", nodeOf("a", `exclusive="true"`, "") + "<x/><x/>", func(v *inventory.Inventory, s *Result) bool {
			return strings.Contains(strings.Join(s.Remarks, "\n"), "not read: 2 (x)")
		}},
		{"coordinates that are none", nodeOf("a", `exclusive="true"`, `<location country="BE" latitude="NaN" longitude="0x1p3"/>`), func(v *inventory.Inventory, s *Result) bool {
			return v.Components[0].Location.Latitude == "" && v.Components[0].Location.Longitude == ""
		}},
		{"capabilities that an inventory cannot have", nodeOf("a", `exclusive="true"`, `<sliver_type name="x"><disk_image name="d">`+capability("cpu.count", `min="1" max="2"`)+`</disk_image></sliver_type>`+
			capability("cpu.count", `min="4" max="2"`)+capability("memory.size", `value="lots"`)+capability("1", `value="1"`)), func(v *inventory.Inventory, s *Result) bool {
			return len(v.Features()) == 0 && strings.Contains(strings.Join(s.Remarks, "\n"), "invalid capabilities, left out: 4")
		}},
		{"capabilities that YAML writes in quotes", nodeOf("a", `exclusive="true"`, capability("null", `value="true"`)+capability("x", `value="[a]&#10;b"`)+capability("x", `value="{"`)+capability("disk.size", `min="1000" max="1500"`)+capability("gpu.count", `value="2"`)), func(v *inventory.Inventory, s *Result) bool {
			has := v.Components[0].Capabilities
			return has["null"].String() == "true" && has["x"].String() == "[a] b, {" && has["disk.size"].Max == 1500 && has["gpu.count"].Max == 2
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := Read([]byte(head+tt.text+"</rspec>"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !tt.holds(load(t, s), s) {
				t.Errorf("it does not hold:\n%s", s.Text)
			}
		})
	}
}

// TestOurOwnAdvertisement has a site be made of another of ours.
func TestOurOwnAdvertisement(t *testing.T) {
	first, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(advertise(t, first), Options{})
	if err != nil {
		t.Fatal(err)
	}
	second := load(t, s)
	if !slices.Equal(first.Features(), second.Features()) || len(first.Features()) < 5 {
		t.Errorf("features are %v, were %v", second.Features(), first.Features())
	}
	capabilitiesOf := func(c *inventory.Component) string {
		return fmt.Sprint(c.Capabilities, c.SliverTypes[0].Capabilities, c.SliverTypes[0].DefaultImage.Capabilities)
	}
	for _, c := range first.Components {
		now, ok := second.Component(c.URN)
		if ok && capabilitiesOf(now) != capabilitiesOf(c) {
			t.Errorf("%s has %s, not %s", c.URN, capabilitiesOf(now), capabilitiesOf(c))
		}
		if !ok || now.Name != c.Name || now.Exclusive != c.Exclusive || !slices.Equal(now.HardwareTypes, c.HardwareTypes) || now.Drained {
			t.Errorf("%s is %+v", c.URN, now)
			continue
		}
		for i, x := range c.SliverTypes {
			if now.SliverTypes[i].Name != x.Name || now.SliverTypes[i].DefaultImage.URN != x.DefaultImage.URN || len(now.SliverTypes[i].Images) != len(x.Images) {
				t.Errorf("%s offers %+v", c.URN, now.SliverTypes[i])
			}
		}
	}
	if len(first.Components) != len(second.Components) {
		t.Errorf("%d components of %d", len(second.Components), len(first.Components))
	}
}

func TestRefusals(t *testing.T) {
	good := nodeOf("pc1", `exclusive="true"`, "")
	for _, tt := range []struct{ rule, text, want string }{
		{"no XML", "inventory: x", "line 1"},
		{"another document", "<signed-credential/>", `line 1: this is a document of type "signed-credential", not an RSpec`},
		{"another RSpec", `<RSpec type="SFA"><network/></RSpec>`, "not an RSpec"},
		{"another version", `<rspec xmlns="urn:x" type="advertisement"/>`, `namespace "urn:x" are not read`},
		{"a request", strings.Replace(head, "advertisement", "request", 1) + "</rspec>", `of type "request", not an advertisement`},
		{"nothing", head + "</rspec>", "has no nodes; an inventory needs nodes"},
		{"only OpenFlow", head + "<datapath/><datapath/></rspec>", "has no nodes, only 2 datapath"},
		{"several managers", head + good + strings.ReplaceAll(good, "example.net", "example.org") + "</rspec>", "choose one with --authority: example.net (1), example.org (1)"},
		{"managers that are no URNs", head + `<node component_id="x" component_manager_id="y"/></rspec>`, `line 1: no node names its manager by a URN (component_manager_id="y")`},
		{"nodes that are no URNs", head + strings.Replace(good, "urn:publicid:IDN+example.net+node+pc1", "pc1", 1) + "</rspec>", `no node has a component_id that is a URN of a node (component_id="pc1")`},
		{"a document type", `<!DOCTYPE rspec [<!ENTITY a "b">]>` + head + good + "</rspec>", "line 1"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := Read([]byte(tt.text), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Read([]byte(head+good+"</rspec>"), Options{Authority: "example.org"}); err == nil || !strings.Contains(err.Error(), "its managers are example.net (1)") {
		t.Errorf("an authority that is not there: %v", err)
	}
	if _, err := Read([]byte(head+good+"</rspec>"), Options{Provider: "a b"}); err == nil {
		t.Error("a provider with a blank")
	}
}

// TestHostileTexts has every text of an advertisement be something else in YAML.
func TestHostileTexts(t *testing.T) {
	for _, x := range []string{
		"null", "~", "true", "- a", "{a: b}", "[x", "a: b", "#x", "&a", "*a", "!!int 3", "|", ">", "'", `"`, "---", "...", "1..9", "a,b", "%", "@", "`",
		"x\ny: z", "&#10;# y", "&#x2028;k: v", "é ü", "\u0085", "a\tb", strings.Repeat("y", 5000), "*", "?", "..", "<<", "=", "0x10", "1e3", "12:30:45",
	} {
		esc := strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\n", "&#10;", "&amp;#", "&#").Replace(x)
		text := head + nodeOf("a", fmt.Sprintf(`component_name=%q exclusive="false"`, "QQ"), `<hardware_type name="QQ"/><sliver_type name="QQ"><disk_image name="QQ" os="QQ" version="QQ" description="QQ" url="QQ"/></sliver_type>`+
			`<location country="QQ" latitude="QQ" longitude="QQ"/><interface component_id="urn:publicid:IDN+example.net+interface+a" component_name="QQ" role="QQ" public_ipv4="QQ"/>`) +
			`<link component_id="QQ"><interface_ref component_id="urn:publicid:IDN+example.net+interface+a"/><link_type name="QQ"/></link><QQ/></rspec>`
		text = strings.Replace(strings.ReplaceAll(text, "QQ", esc), "<"+esc+"/>", "", 1)
		s, err := Read([]byte(text), Options{File: x})
		if err != nil {
			t.Errorf("%q: %v", x, err)
			continue
		}
		v := load(t, s)
		if len(v.Components) != 1 || len(v.Interfaces) != 1 || v.Components[0].Provider != "simulated" {
			t.Errorf("%q: %s", x, s.Text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"geni3.xml", "protogeni2.xml", "protogeni02.xml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(text, Options{Authority: "example.net"})
		if err != nil {
			if strings.Contains(err.Error(), "mistake of this program") {
				t.Fatal(err)
			}
			return
		}
		load(t, s)
	})
}

// A node that names no sliver type gets raw-pc where there is one, or else what most
// nodes offer; and a remark reports it.
func TestUsualSliverType(t *testing.T) {
	for _, tt := range []struct {
		rule, want string
		nodes      []string // the types of each
	}{
		{"raw-pc, wherever it stands", "raw-pc", []string{"vm", "vm", "raw-pc vm"}},
		{"else what most offer", "b", []string{"a", "b", "b c"}},
		{"the first of equals", "a", []string{"a", "b"}},
		{"the only one", "a", []string{"a"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			ad := head
			for i, types := range tt.nodes {
				offers := `<sliver_type name="` + strings.ReplaceAll(types, " ", `"/><sliver_type name="`) + `"/>`
				ad += nodeOf(fmt.Sprint("n", i), `exclusive="true"`, offers)
			}
			s, err := Read([]byte(ad+"</rspec>"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if v := load(t, s); v.DefaultSliverType.Name != tt.want {
				t.Errorf("it is %v", v.DefaultSliverType.Name)
			}
			remarked := strings.Contains(strings.Join(s.Remarks, "\n"), "need another: 1 ("+tt.want+")")
			if remarked != (s.SliverTypes > 1) {
				t.Errorf("remarked: %v", remarked)
			}
		})
	}
}
