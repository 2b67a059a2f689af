package draw

import (
	"bytes"
	"os"
	"testing"
	"unicode/utf8"

	"patchbay/rspec/view"
	"patchbay/schemas/xmltree"
)

// FuzzDraw draws any accepted document. There is no panic, drawings are well-formed without
// references to other documents, and text has no terminal control characters.
func FuzzDraw(f *testing.F) {
	for _, file := range documents(f) {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := view.Read(b, xmltree.Limits{Bytes: 1 << 16, Elements: 2000})
		if err != nil {
			return
		}
		svg := svgOf(t, p)
		if err := checkSVG(svg); err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		for _, o := range []TextOptions{{}, {ASCII: true, Width: 40}} {
			text := textOf(t, p, o)
			if err := checkTerminal(text); err != nil || !utf8.ValidString(text) {
				t.Fatalf("%v\n%q", err, text)
			}
			if o.ASCII && bytes.ContainsFunc([]byte(text), func(r rune) bool { return r > '~' }) {
				t.Fatalf("beyond ASCII: %q", text)
			}
		}
	})
}
