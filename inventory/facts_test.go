package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFacts(t *testing.T) {
	const text = `
provider: local
images: [{name: host, capabilities: {software.ansible: 2.14}}, {name: own}, {name: both}, {name: other}]
sliver_types: [{name: container, aliases: ["vm*"], needs: {disk: 4G}, images: [host, own, both, other]}, {name: machine}]
components:
  - {name: here, exclusive: false, sliver_types: [container], capacity: {slots: 2, disk: 8G}}
  - {name: pc, exclusive: true, sliver_types: [machine], provider: rack, capabilities: {disk.size: 250G}}
`
	plain, err := Parse([]byte(text), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"local.facts.yaml":  string(FactsText(Facts{Images: map[string][]string{"host": {"cpu.arch=x86_64", "software.ansible=2.19", "memory.size=1T", "nonsense", "a b=c"}, "own": {"cpu.arch=aarch64"}, "both": {"cpu.arch=x86_64", "kind=a"}, "gone": {"kind=x"}}})),
		"rack.facts.yaml":   "images: {both: [cpu.arch=x86_64, kind=b]}\ncomponents: {pc: [cpu.arch=i686, disk.size=1T], here: [kind=foreign]}\n",
		"unused.facts.yaml": "images: {other: [kind=unused]}\n",
		"broken.facts.yaml": "images: [\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	facts, err := ReadFacts(dir)
	for _, want := range []string{"broken.facts.yaml: it is not a file of facts", `local.facts.yaml: "host": "a b" is not the name of a feature`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	v := plain.WithFound(nil, facts)
	here, _ := v.ComponentNamed("here")
	pc, _ := v.ComponentNamed("pc")
	container, _ := v.SliverType("vm-1") // by its pattern
	if !here.Offers(container) || v.DefaultSliverType != container {
		t.Error("components and sliver types are not of one inventory")
	}
	for _, tt := range []struct{ rule, component, image, feature, want string }{
		{"a fact of an image", "here", "host", "cpu.arch", "x86_64"},
		{"the inventory comes first", "here", "host", "software.ansible", "2.14"},
		{"an image does not state what slivers take from components", "here", "host", "memory.size", ""},
		{"another image", "here", "own", "cpu.arch", "aarch64"},
		{"two providers agree", "here", "both", "cpu.arch", "x86_64"},
		{"two providers differ", "here", "both", "kind", ""},
		{"a provider of no component", "here", "other", "kind", ""},
		{"the component of another provider", "here", "other", "kind", ""},
		{"a fact of a component", "pc", "", "cpu.arch", "i686"},
		{"the inventory of a component comes first", "pc", "", "disk.size", "250G"},
		{"free disk of a shared component", "here", "host", "disk.0.free_size", "4G"},
		{"free disk of an exclusive component", "pc", "", "disk.0.free_size", "250G"},
	} {
		c, kind := here, container
		if tt.component == "pc" {
			c, kind = pc, pc.SliverTypes[0]
		}
		i, _ := kind.Image(tt.image)
		got := ""
		if offer, ok := CapabilitiesOf(c, kind, i)(tt.feature); ok {
			got = offer.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.want)
		}
	}
	want := "image host has software.ansible 2.14 in the inventory, but its provider has found 2.19\ncomponent pc has disk.size 250G in the inventory, but its provider has found 1T"
	if got := strings.Join(v.ContradictedFacts(), "\n"); got != want {
		t.Errorf("contradictions:\n%s\nwant:\n%s", got, want)
	}
	if !v.HasFacts(facts) || v.HasFacts(nil) || plain.HasFacts(facts) || !plain.HasFacts(nil) {
		t.Error("HasFacts is wrong")
	}
	if again := v.WithFound(nil, nil); again != plain || plain.Images[1].Capabilities != nil {
		t.Error("facts stay after they have gone")
	}
}
