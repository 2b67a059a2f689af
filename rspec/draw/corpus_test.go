package draw

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/rspec/view"
	"patchbay/schemas/xmltree"
)

// TestCorpusIsDrawn draws every document of the corpus that can be read.
func TestCorpusIsDrawn(t *testing.T) {
	files, err := filepath.Glob(require.Shared(t, "corpus", "rspecs") + "/*/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := view.Read(b, xmltree.Limits{})
		if err != nil {
			continue
		}
		count++
		svg := svgOf(t, p)
		if err := checkSVG(svg); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		if err := checkTerminal(textOf(t, p, TextOptions{})); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		for _, f := range faultsOf(drawn(p)) {
			t.Errorf("%s: %s", filepath.Base(file), f)
		}
		if p.Kind == view.Advertisement {
			continue // its nodes are in groups
		}
		for _, n := range p.Nodes {
			if name := cleaned(n.Name); name != "" && !strings.Contains(svg, "<title>"+escape(name)) {
				t.Errorf("%s: %s is not in the drawing", filepath.Base(file), name)
			}
		}
	}
	if count < 400 {
		t.Errorf("only %d of %d documents were drawn", count, len(files))
	}
}
