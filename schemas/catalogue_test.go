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

func TestEachKindImportsTheCatalogueOnce(t *testing.T) {
	for _, k := range schemas.Kinds() {
		want := map[string]string{schemas.Namespace: schemas.Core(k)}
		for _, x := range schemas.Catalogue() {
			if file := x.Files[k]; file != "" {
				want[x.Namespace] = file
			}
		}
		got := make(map[string]string)
		for _, m := range imports.FindAllStringSubmatch(read(t, schemas.Known(k)), -1) {
			if got[m[1]] != "" {
				t.Errorf("%s imports %s twice; only the first counts", schemas.Known(k), m[1])
			}
			got[m[1]] = m[2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-catalogue +file):\n%s", schemas.Known(k), diff)
		}
	}
}

func TestFilesDeclareTheNamespaceOfTheCatalogue(t *testing.T) {
	for _, x := range schemas.Catalogue() {
		for _, file := range slices.Sorted(maps.Values(x.Files)) {
			if m := target.FindStringSubmatch(read(t, file)); m == nil || m[1] != x.Namespace {
				t.Errorf("%s does not declare %s but %v", file, x.Namespace, m)
			}
		}
		if x.Description == "" || len(x.Files) == 0 {
			t.Errorf("the catalogue does not say what %s is, or where", x.Namespace)
		}
	}
	if !slices.IsSortedFunc(schemas.Catalogue(), func(a, b schemas.Extension) int { return strings.Compare(a.Namespace, b.Namespace) }) {
		t.Error("the catalogue is not in order")
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

// TestWhatIsDeclaredIsValid reads documents with everything that we declare.
func TestWhatIsDeclaredIsValid(t *testing.T) {
	for _, k := range schemas.Kinds() {
		text, err := os.ReadFile("testdata/" + string(k) + ".xml")
		if err != nil {
			t.Fatal(err)
		}
		found, err := xmltree.Validate(text, "", xmltree.Limits{})
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", k, found, err)
		}
		// Each declared name stands in the document, but for those that stand only in others.
		files := []string{"rspec/common.xsd", schemas.Core(k)}
		if k != schemas.Advertisement {
			files = append(files, "rspec/experiment.xsd")
		}
		for _, x := range schemas.Catalogue() {
			if x.Files[k] != "" {
				files = append(files, x.Files[k])
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
