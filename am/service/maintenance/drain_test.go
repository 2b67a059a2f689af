package maintenance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/inventory/nameset"
)

func TestDrains(t *testing.T) {
	p, err := Parse([]byte(`drained:
  - {components: [pc1..pc3, h1], text: fan, since: 2030-01-01T00:00:00Z, by: dora}
  - components: [pc3, h9]
`), "m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pc1": "fan", "pc3": "fan", "h1": "fan", "h9": "", "pc4": "none"} {
		got := "none"
		if d := p.Drain(name); d != nil {
			got = d.Text
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if d := p.Drain("pc2"); d.By != "dora" || !d.Since.Equal(minute(0)) || d.Line != 2 {
		t.Errorf("%+v", d)
	}
	if got := p.Unknown(func(name string) bool { return name != "h9" }); len(got) != 1 || got[0] != (Unknown{3, "h9"}) {
		t.Errorf("%+v", got)
	}
	if (*Plan)(nil).Drain("pc1") != nil {
		t.Error("no plan drains something")
	}
}

func TestMistakesInDrains(t *testing.T) {
	for text, want := range map[string]string{
		"drained: pc1":                                  "m.yaml:1: drained must be a list of {components, text, since, by}",
		"drained: [pc1]":                                "m.yaml:1: an entry of drained must be a list of keys and values",
		"drained: [{text: x}]":                          "m.yaml:1: an entry of drained has no components; to stop new work at the whole site, use lockdown",
		"drained: [{components: []}]":                   "components must be a list of names",
		"drained: [{component: [pc1]}]":                 `an entry of drained has no key "component"; did you mean "components"?`,
		"drained: [{components: [pc1], text: \"\"}]":    "the text is empty",
		"drained: [{components: [pc1], by: [x]}]":       "by must be the name",
		"drained: [{components: [pc1], by: \"a\\nb\"}]": "by must be the name",
		"drained: [{components: [pc1], since: soon}]":   "since must be a time",
		"drained: [{components: [pc1, pc4..pc2]}]":      `"pc4..pc2" is not a range`,
		"drainde: []":                                   `the file has no key "drainde"; did you mean "drained"?`,
	} {
		if _, err := Parse([]byte(text), "m.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestDrainedWithout lists drained names without a component, each once.
func TestDrainedWithout(t *testing.T) {
	p, err := Parse([]byte("drained:\n- components: [pc1..pc4]\n- components: [pc4, gone, h1]\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	have := func(name string) bool { return name == "pc1" || name == "h1" }
	for most, want := range map[int]string{0: "", 2: "pc2 pc3", 10: "pc2 pc3 pc4 gone"} {
		if got := strings.Join(p.DrainedWithout(have, most), " "); got != want {
			t.Errorf("at most %d: %s, want %s", most, got, want)
		}
	}
	if got := (*Plan)(nil).DrainedWithout(have, 10); got != nil {
		t.Errorf("without a file: %q", got)
	}
}

// TestUndrainModel drains and undrains at random and compares the file with a set.
func TestUndrainModel(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("pc%02d", i+1), fmt.Sprintf("h%d", i+5))
	}
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		file := filepath.Join(dir, fmt.Sprint(runs))
		drained := map[string]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			some := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "names")
			lift := rapid.Bool().Draw(t, "lift")
			slices.Sort(some)
			p, err := Change(file, func(d *Draft) error {
				if lift {
					d.Undrain(some)
				} else if len(some) > 0 {
					d.AddDrain(Drain{Components: nameset.Fold(some), Text: rapid.SampledFrom([]string{"", "x: #y"}).Draw(t, "text"), Since: minute(1), By: "dora"})
				}
				return nil
			})
			if err != nil {
				text, _ := os.ReadFile(file)
				t.Fatalf("%v\n%s", err, text)
			}
			for _, name := range some {
				drained[name] = !lift
			}
			for _, name := range names {
				if got := p.Drain(name) != nil; got != drained[name] {
					text, _ := os.ReadFile(file)
					t.Fatalf("%s is drained: %v\n%s", name, got, text)
				}
			}
		}
	})
}

// TestFoldIsUndoneBySpread checks that the short form of names has the same meaning.
func TestFoldIsUndoneBySpread(t *testing.T) {
	if got := strings.Join(nameset.Fold([]string{"pc1", "pc2", "pc3", "pc5", "pc6", "h", "n08", "n09", "n10", "n1"}), " "); got != "pc1..pc3 pc5 pc6 h n08..n10 n1" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.StringMatching(`(pc|n0*|)[0-9]{1,20}|h|x\.9`)).Draw(t, "names")
		names = slices.DeleteFunc(names, func(s string) bool { _, err := Spread(s, 1); return err != nil })
		slices.Sort(names)
		var again []string
		for _, w := range nameset.Fold(names) {
			some, err := Spread(w, 1000)
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			again = append(again, some...)
		}
		if !slices.Equal(names, again) {
			t.Errorf("%q becomes %q", names, again)
		}
	})
}
