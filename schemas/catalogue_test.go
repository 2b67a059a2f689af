package schemas_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := schemas.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	imports  = regexp.MustCompile(`<xs:import namespace="([^"]+)"\s+schemaLocation="([^"]+)"/>`)
	includes = regexp.MustCompile(`<xs:include schemaLocation="([^"]+)"/>`)
	target   = regexp.MustCompile(`targetNamespace="([^"]+)"`)
)

// importsOf returns the files that the schema of a kind imports, by namespace.
func importsOf(t *testing.T, k schemas.Kind) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, m := range imports.FindAllStringSubmatch(read(t, schemas.Known(k)), -1) {
		if files[m[1]] != "" {
			t.Errorf("%s imports %s twice; only the first counts", schemas.Known(k), m[1])
		}
		files[m[1]] = m[2]
	}
	return files
}

// TestKindsImportTheirExtensions checks that each import is of the namespace that its file declares,
// and that each namespace of an extension of ours is imported.
func TestKindsImportTheirExtensions(t *testing.T) {
	imported := make(map[string]bool)
	for _, k := range schemas.Kinds() {
		files := importsOf(t, k)
		if files[schemas.Namespace] != schemas.Core(k) {
			t.Errorf("%s imports the core from %q", schemas.Known(k), files[schemas.Namespace])
		}
		for space, file := range files {
			imported[space] = true
			if m := target.FindStringSubmatch(read(t, file)); m == nil || m[1] != space {
				t.Errorf("%s does not declare %s but %v", file, space, m)
			}
		}
	}
	for _, space := range []string{
		schemas.SliceInfo, schemas.SliverInfo, schemas.Stitching, schemas.Proxy, schemas.JFed, schemas.Match, schemas.Net, schemas.Origin, schemas.Setup, schemas.Template,
		schemas.Monitoring, schemas.OldMonitoring, schemas.OpState, schemas.SharedVLAN, schemas.User, schemas.Delay, schemas.Emulab, schemas.PXE, schemas.OldSharedVLAN, schemas.OldUser,
	} {
		if !imported[space] {
			t.Errorf("no kind imports %s", space)
		}
	}
}

func TestEachFileIsUsed(t *testing.T) {
	used := make(map[string]bool)
	var use func(name string)
	use = func(name string) {
		used[name] = true
		text := read(t, name)
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			use(filepath.Join(filepath.Dir(name), m[2]))
		}
		for _, m := range includes.FindAllStringSubmatch(text, -1) {
			use(filepath.Join(filepath.Dir(name), m[1]))
		}
	}
	for _, k := range schemas.Kinds() {
		use(schemas.Known(k))
	}
	if diff := cmp.Diff(schemas.Names(), slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("(-embedded +used)\n%s", diff)
	}
	if _, err := schemas.Read("zork.xsd"); err == nil || !strings.Contains(err.Error(), "Names") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestDocumentWithEachDeclaredNameIsValid validates documents with everything that we declare.
func TestDocumentWithEachDeclaredNameIsValid(t *testing.T) {
	for _, k := range schemas.Kinds() {
		text, err := os.ReadFile("testdata/" + string(k) + ".xml")
		if err != nil {
			t.Fatal(err)
		}
		found, err := xmltree.Validate(text, "", xmltree.Limits{})
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", k, found, err)
		}
		// The document has each declared name, except those that occur only inside others.
		files := []string{"rspec/common.xsd", schemas.Core(k)}
		if k != schemas.Advertisement {
			files = append(files, "rspec/experiment.xsd")
		}
		for space, file := range importsOf(t, k) {
			if space != schemas.Namespace {
				files = append(files, file)
			}
		}
		for _, file := range files {
			for _, m := range regexp.MustCompile(`<xs:(element|attribute) name="([^"]+)"`).FindAllStringSubmatch(read(t, file), -1) {
				here := regexp.MustCompile(`<(\w+:)?` + m[2] + `[\s/>]`)
				if m[1] == "attribute" {
					here = regexp.MustCompile(`[\s:]` + m[2] + `="`)
				}
				if !here.Match(text) && !slices.Contains([]string{"link_class", "rspec_proxy", "jfed_location"}, m[2]) {
					t.Errorf("testdata/%s.xml has no %s %s of %s", k, m[1], m[2], file)
				}
			}
		}
	}
}
