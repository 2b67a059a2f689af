package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocationWithoutCoordinatesIsAWarning (S4): a location with a country but without
// coordinates is valid but not advertised, because clients fail on it.
func TestLocationWithoutCoordinatesIsAWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	text := `provider: rack
sliver_types: [{name: vm}]
locations: [{name: attic, country: BE}, {name: cellar, country: BE, latitude: 51.04, longitude: 3.73}]
components: [{name: a, exclusive: true, location: attic}, {name: b, exclusive: true, location: cellar}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	k := Checker{Out: &out}
	inv := k.inventory(file, "example.org")
	if inv == nil || len(inv.Locations) != 2 || k.wrong > 0 {
		t.Fatalf("%d errors: %s", k.wrong, out.String())
	}
	want := "warning  " + file + ": location attic has no coordinates, so it is not advertised; give it a latitude and longitude\n"
	if !strings.HasSuffix(out.String(), want) || strings.Contains(out.String(), "cellar") {
		t.Errorf("got %s, want at the end %s", out.String(), want)
	}
}
