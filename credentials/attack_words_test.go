package credentials_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/credentials/rule"
)

var update = flag.Bool("update", false, "write the refusals in testdata anew")

// words compares the texts and codes of the refusals with the file of the theme, if there is
// one. It omits error texts of libraries.
func words(t *testing.T, w *world, theme string, rows []attack) {
	t.Helper()
	file := filepath.Join("testdata", "refusals", theme+".txt")
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, a := range rows {
		if a.rule == rule.Readable {
			continue
		}
		if err := a.attack.try(w); err != nil {
			fmt.Fprintf(&b, "%s\n  rule: %s\n  %d: %v\n", a.title(), a.rule, detail(t, err), err)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("refusals differ (-want +got); review them and run with -update:\n%s", diff)
	}
}
