package compile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

// largeSite returns a site with components of 20 types that each have 10 images.
func largeSite(t testing.TB, components int) *inventory.Inventory {
	t.Helper()
	var b strings.Builder
	b.WriteString("provider: rack\nimages:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  - {name: image%[1]d, capabilities: {disk.0.os.name: linux, disk.0.os.version: 12.%[1]d}}\n", i)
	}
	b.WriteString("sliver_types:\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  - {name: type%d, default_image: image0, images: [image0, image1, image2, image3, image4, image5, image6, image7, image8, image9]}\n", i)
	}
	b.WriteString("default_sliver_type: type0\ncomponents:\n")
	for i := range components {
		fmt.Fprintf(&b, "  - {name: pc%d, exclusive: true, sliver_types: [type%d], capabilities: {cpu.count: 16, memory.size: 64G}}\n", i, i%20)
	}
	v, err := inventory.Parse([]byte(b.String()), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// parts repeats a text, in which %d is the number of the part.
func parts(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// hostile are sources that were written to take long, at most 256 KiB each, for a slice that has a
// node with a high number of each system. Steps is the most work that they may take at a site with
// 1,000 components.
var hostile = []struct {
	rule, language, source string
	steps                  int
	want                   string // in the refusal; empty if the source compiles
}{
	{"a long id", compile.RADL, "configure " + strings.Repeat("x", 40<<10) + " ()\n", 200_000, "has more than 200 bytes"},
	{"systems whose image must be searched", compile.RADL, parts(100, "system s%d (disk.0.os.name = 'linux' and memory.size >= 1T)\ndeploy s%d 20\nconfigure s%d (\n@begin\n- tasks: []\n@end\n)\n"), 15_000_000, ""},
	{"soft groups", compile.RADL, "system s (memory.size >= 1T" + parts(60, " and soft 9 (disk.0.os.version = '12.1')") + ")\ndeploy s 1", 1_000_000, ""},
	{"constraints", compile.RADL, "system s (" + parts(10_000, "gpu.x%d = 'a' and ") + "x = 'y')\ndeploy s 1", 1_000_000, "10000 constraints are too many"},
	{"applications", compile.RADL, "system s (" + parts(4000, "disk.0.applications contains (name = 'a%d') and ") + "x = 'y')\ndeploy s 1", 1_100_000, "has more than 100 applications"},
	{"interfaces of many deploy sentences", compile.RADL, "network n ()\nsystem s (" + parts(5000, "net_interface.%d.connection = 'n' and ") + "x = 'y')\n" + parts(2000, "deploy s 1\n"), 12_000_000, "take more than 50000 elements"},
	{"components that fit nowhere", compile.Blueprint, "components:\n" + parts(900, "- {type: server, id: s%d, requires: [{type: minRam, value: 1T}]}\n"), 1_900_000, ""},
}

// TestHostile counts the steps of hostile sources.
func TestHostile(t *testing.T) {
	site := largeSite(t, 1000)
	for _, tt := range hostile {
		w := rspec.NewWork(t.Context())
		_, err := compile.Compile([]byte(tt.source), compile.Options{Site: site, Language: tt.language, Work: w})
		if text := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %.300s, want %q", tt.rule, text, tt.want)
		}
		if w.Steps() > tt.steps || w.Steps() < len(tt.source) || len(tt.source) > 256<<10 {
			t.Errorf("%s: %d bytes take %d steps, not at most %d", tt.rule, len(tt.source), w.Steps(), tt.steps)
		}
	}
}

// cancelled is a context that ends when its error was asked for so many times.
type cancelled struct {
	context.Context
	asked, after int
}

func (c *cancelled) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// TestWorkEnds requires that a compilation ends soon after its context or its work does.
func TestWorkEnds(t *testing.T) {
	site := largeSite(t, 1000)
	for _, tt := range hostile {
		if tt.steps < 2_000_000 {
			continue // it ends before the first look at the context
		}
		for after := range 3 {
			ctx := &cancelled{Context: t.Context(), after: after}
			w := rspec.NewWork(ctx)
			if _, err := compile.Compile([]byte(tt.source), compile.Options{Site: site, Language: tt.language, Work: w}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cancelled: %v", tt.rule, err)
			}
		}
		w := rspec.NewWork(t.Context())
		w.Spend(rspec.MaxWork - 500_000)
		_, err := compile.Compile([]byte(tt.source), compile.Options{Site: site, Language: tt.language, Work: w})
		refusal, ok := errors.AsType[*compile.Error](err)
		if !ok || refusal.Problems[0].Kind != rspec.TooBig || !strings.Contains(err.Error(), "the compilation takes more than 100000000 steps; use fewer different systems") {
			t.Errorf("%s: without work left: %v", tt.rule, err)
		}
		if over := w.Steps() - rspec.MaxWork; over > 2_000_000 {
			t.Errorf("%s: %d steps were counted after the last one", tt.rule, over)
		}
	}
}

// BenchmarkHostile compiles hostile sources for a site with 10,000 components. None should take more
// than 2 s.
func BenchmarkHostile(b *testing.B) {
	site := largeSite(b, 10_000)
	for _, tt := range hostile {
		b.Run(tt.rule, func(b *testing.B) {
			for b.Loop() {
				_, _ = compile.Compile([]byte(tt.source), compile.Options{Site: site, Language: tt.language, Work: rspec.NewWork(b.Context())})
			}
		})
	}
}
