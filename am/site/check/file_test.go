package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/site"
	"patchbay/inventory"
)

// TestStandardInput checks what may be read from standard input. Other files need their folder.
func TestStandardInput(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a blueprint", "components: {a: {type: server}}\n", "ok       standard input: a valid request"},
		{"RADL", "system a ()\ndeploy a 1\n", "ok       standard input: a valid request"},
		{"a configuration", "authority: example.org\n", "error    standard input: only RSpecs, RADL, blueprints, credentials and certificates"},
		{"neither", "[1\n", "error    standard input: this is neither YAML nor XML"},
	} {
		var out bytes.Buffer
		k := &Checker{Out: &out, Err: &out}
		if k.text(t.Context(), standardInput, []byte(tt.text)); !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, &out, tt.want)
		}
	}
}

// TestFilesAreRecognised proves that a file of a site is recognised by its name, also alone and with
// mistakes, and another file by its keys.
func TestFilesAreRecognised(t *testing.T) {
	rules := "rules: [{name: r, colour: red}]\n"
	for _, tt := range []struct{ rule, file, text, want string }{
		{"a policy with a mistake", "policy.yaml", rules, `policy.yaml:1: a rule has no key "colour"`},
		{"a policy with misspelt keys", "policy.yaml", "rulez: []\n", `policy.yaml:1: the policy has no key "rulez"`},
		{"a policy with another name", "other.yaml", rules, `other.yaml:1: a rule has no key "colour"`},
		{"no YAML", "policy.yaml", "rules: [\n", "policy.yaml:1: at or after line 1 this is not YAML: "},
		{"no YAML with another name", "other.yml", "a: b: c\n", "other.yml:1: at or after line 1 this is not YAML: "},
		{"no YAML without such a name", "other", "a: b: c\n", "other: this is neither YAML nor XML"},
		{"maintenance with misspelt keys", "maintenance.yaml", "drain: []\n", `maintenance.yaml:1: the file has no key "drain"`},
		{"an inventory with misspelt keys", "inventory.yaml", "component: []\n", `inventory.yaml:1: an inventory has no key "component"`},
		{"a list as an inventory", "inventory.yaml", "- a\n", "inventory.yaml:1: "},
		{"a configuration", "other.yaml", "authority: a.example.org\ncolour: red\n", "other.yaml:2: unknown key colour"},
		{"facts", "rack.facts.yaml", "images: {a: [x=1]}\n", "rack.facts.yaml: facts of the provider rack about 1 image and 0 components"},
		{"wrong facts", "rack.facts.yaml", "images: [a]\n", "rack.facts.yaml: it is not a file of facts"},
		{"unknown keys", "other.yaml", "colour: red\n", "other.yaml: this is not a kind of file that check knows: no RSpec, which begins with <rspec, no RADL, no blueprint, which has the key components, and no file of a site; see: "},
		{"an audit", "audit.log", `{"at":"2030-01-01T00:00:00Z"}`, "audit.log: this is not a kind of file that check knows"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			site.ConfigName:    "authority: example.org\nkeys: [{certificate: c.pem, key: k.pem}]\npolicy: policy.yaml\n",
			site.InventoryName: string(inventory.LocalText("example.org", inventory.Host{Name: "h"})), tt.file: tt.text,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		k := &Checker{Out: &out, Err: &out}
		k.File(t.Context(), filepath.Join(dir, tt.file))
		if !strings.Contains(out.String(), dir+"/"+tt.want) {
			t.Errorf("%s: %s, want %s", tt.rule, &out, tt.want)
		}
	}
}

// TestMistakesArePrintedOnce proves that a file which is checked twice has each mistake once.
func TestMistakesArePrintedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	if err := os.WriteFile(path, []byte("colour: red\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	k := &Checker{Out: &out, Err: &out}
	k.File(t.Context(), path)
	k.inventory(path, "example.org")
	if n := strings.Count(out.String(), "colour"); n != 1 || k.wrong != 1 {
		t.Errorf("%d times, %d errors: %s", n, k.wrong, &out)
	}
}
