package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCatalogue reads an inventory with one entry that names a file of the catalogue.
func TestCatalogue(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, CatalogueFolder)
	inFolder := func(name string) string { return filepath.Join(files, name) }
	if err := os.MkdirAll(inFolder("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	content := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(inFolder(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content("web-1.0+b~c.tar.gz", "abc")
	content(".hidden", "abc")
	content("huge", "")
	for _, err := range []error{os.Truncate(inFolder("huge"), MaxCatalogueFile+1), os.Symlink("web-1.0+b~c.tar.gz", inFolder("link")), unix.Mkfifo(inFolder("pipe"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	parse := func(dir, name string) (*Inventory, error) {
		text := "provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: true}]\ngalaxy:\n  - {name: alice.web, url: '" + name + "'}\n"
		return Parse([]byte(text), filepath.Join(dir, "inventory.yaml"), "example.org")
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for _, tt := range []struct{ rule, name, problem string }{
		{"a file", "web-1.0+b~c.tar.gz", ""},
		{"missing", "web.tar.gz", "there is no such file in the folder " + files + "; copy it there, or write an http or https URL"},
		{"a path", "folder/web", "5: url must be the name of a file in the folder catalogue"},
		{"above the folder", "../inventory.yaml", "5: url must be the name of a file"},
		{"a leading dot", ".hidden", "5: url must be the name of a file"},
		{"a leading dash", "-rf", "5: url must be the name of a file"},
		{"the internal form", "catalogue:web-1.0+b~c.tar.gz", "5: url must be the name of a file"},
		{"a link", "link", "it is a symbolic link; copy the file itself there"},
		{"a folder", "folder", "it is not a regular file"},
		{"a pipe", "pipe", "it is not a regular file"},
		{"too large", "huge", "it has 1073741825 bytes; at most 1024 MiB are possible"},
	} {
		v, err := parse(dir, tt.name)
		switch {
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%s: %v, want %s", tt.rule, err, tt.problem)
		case tt.problem == "" && (err != nil || v.Catalogue[tt.name] != abc || v.Galaxy["alice.web"] != "catalogue:"+tt.name):
			t.Errorf("%s: %+v, %v", tt.rule, v, err)
		}
	}
	linked := t.TempDir()
	if err := os.Symlink(files, filepath.Join(linked, CatalogueFolder)); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(linked, "web-1.0+b~c.tar.gz"); err == nil || !strings.Contains(err.Error(), "it is no folder, or a symbolic link") {
		t.Errorf("a linked folder: %v", err)
	}
	before, err := parse(dir, "web-1.0+b~c.tar.gz")
	content("web-1.0+b~c.tar.gz", "abd")
	after, err2 := parse(dir, "web-1.0+b~c.tar.gz")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if c := Compare(before, after); len(c) != 1 || c[0].String() != "the site: the file web-1.0+b~c.tar.gz of the catalogue has changed" {
		t.Errorf("another content: %v", c)
	}
}
