package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/inventory"
)

const importedAd = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="advertisement">
 <node component_id="urn:publicid:IDN+testbed.example.org+node+blade7" component_manager_id="urn:publicid:IDN+testbed.example.org+authority+cm" component_name="blade7" exclusive="true">
  <sliver_type name="raw-pc"><disk_image name="urn:publicid:IDN+testbed.example.org+image+deb"/></sliver_type>
 </node>
 <node component_id="urn:publicid:IDN+example.net+node+theirs" component_manager_id="urn:publicid:IDN+example.net+authority+cm" exclusive="true"/>
</rspec>`

// TestImportAsAnOperatorDoesIt takes over a site of another aggregate manager: a
// request that names a component by its old component_id gets it.
func TestImportAsAnOperatorDoesIt(t *testing.T) {
	dir, site := lockable(t)
	ad, out := filepath.Join(t.TempDir(), "ad.xml"), filepath.Join(dir, "inventory.yaml")
	if err := os.WriteFile(ad, []byte(importedAd), 0o644); err != nil {
		t.Fatal(err)
	}
	code, text := tell(t, "import", ad)
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	has(t, text, ad+": the advertisement is of several managers; choose one with --authority: testbed.example.org (1), example.net (1)")
	authority := []string{"--authority", "testbed.example.org"}
	code, text = tell(t, append([]string{"import", ad}, authority...)...)
	if code != 0 {
		t.Error(text)
	}
	if _, err := inventory.Parse([]byte(text), "printed", "testbed.example.org"); err != nil {
		t.Errorf("what is printed is no inventory: %v", err)
	}
	before := readFile(t, out)
	code, text = tell(t, append([]string{"import", ad, "-o", out}, authority...)...)
	if code != 1 || readFile(t, out) != before {
		t.Errorf("exit status %d, and the inventory is changed", code)
	}
	has(t, text, out+" is there already; name another file, or say --force")
	code, text = tell(t, append([]string{"import", ad, "-o", out, "--force", "--provider", "simulated"}, authority...)...)
	if code != 0 {
		t.Error(text)
	}
	has(t, text, "holds 1 component, 0 interfaces and 0 links of testbed.example.org", "nodes of other managers, left out: 1 (example.net)")
	if code, text := site("check"); code != 0 {
		t.Error(text)
	}

	s := serve(t, dir)
	request := filepath.Join(t.TempDir(), "request.xml")
	saved := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a" component_id="urn:publicid:IDN+testbed.example.org+node+blade7" component_manager_id="urn:publicid:IDN+testbed.example.org+authority+cm"><sliver_type name="raw-pc"/></node></rspec>`
	if err := os.WriteFile(request, []byte(saved), 0o644); err != nil {
		t.Fatal(err)
	}
	code, text = tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first", "-o", "-", "Allocate", request)
	if code != 0 || !strings.Contains(text, `component_id="urn:publicid:IDN+testbed.example.org+node+blade7"`) {
		t.Errorf("a saved request: %d\n%s", code, text)
	}
}

func TestImportUsage(t *testing.T) {
	for _, tt := range []struct {
		rule, want string
		args       []string
	}{
		{"no file", "it takes one argument, the file with the advertisement", []string{"import"}},
		{"force without a file", "--force is about the file of --out", []string{"import", "ad.xml", "--force"}},
		{"a file that is not there", "no such file", []string{"import", filepath.Join(t.TempDir(), "ad.xml")}},
		{"a folder", "it is not a regular file but a folder", []string{"import", t.TempDir()}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			code, out := tell(t, tt.args...)
			if code == 0 || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d: %s", code, out)
			}
		})
	}
}
