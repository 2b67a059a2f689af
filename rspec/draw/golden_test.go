package draw

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/rspec/view"
)

var update = flag.Bool("update", false, "write the drawings in testdata anew")

func documents(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in testdata: %v", err)
	}
	return files
}

func TestGoldens(t *testing.T) {
	for _, file := range documents(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := read(t, string(b))
			base := strings.TrimSuffix(file, ".xml")
			svg := svgOf(t, p)
			text := textOf(t, p, TextOptions{}) + "\n--- in ASCII ---\n" + textOf(t, p, TextOptions{ASCII: true, Width: 70})
			for name, got := range map[string]string{base + ".svg": svg, base + ".txt": text} {
				if *update {
					if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("%s: -want +got (run with -update and look at it):\n%s", name, diff)
				}
			}
			for _, f := range faultsOf(drawn(p)) {
				t.Error(f)
			}
			if err := checkSVG(svg); err != nil {
				t.Error(err)
			}
			if err := checkTerminal(text); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTextIsNoWiderThanTheTerminal(t *testing.T) {
	for _, file := range documents(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{60, 80, 132} {
			for line := range strings.SplitSeq(textOf(t, read(t, string(b)), TextOptions{Width: width}), "\n") {
				if columns(line) > width {
					t.Errorf("%s at %d columns: a line of %d: %s", file, width, columns(line), line)
				}
			}
		}
	}
}

func TestColoursAreNeverNeeded(t *testing.T) {
	for _, file := range documents(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := read(t, string(b))
		coloured := textOf(t, p, TextOptions{Color: true})
		if !strings.Contains(coloured, reset) {
			t.Error("there are no colours")
		}
		for _, s := range []string{bold, dim, reset, stateColors[view.Ready], stateColors[view.Busy], stateColors[view.Failed]} {
			coloured = strings.ReplaceAll(coloured, s, "")
		}
		if diff := cmp.Diff(textOf(t, p, TextOptions{}), coloured); diff != "" {
			t.Error(diff)
		}
	}
}
