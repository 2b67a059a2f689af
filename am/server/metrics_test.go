package server

import (
	"slices"
	"testing"
)

// TestLabelsOfFileNames proves that metrics work with any file name: one that is not UTF-8,
// and two that differ only in invalid bytes.
func TestLabelsOfFileNames(t *testing.T) {
	m := newMetrics(Options{Numbers: []Number{{Name: "ends", Help: "Ends.", Labels: []string{"file"}, Values: func(add func(float64, ...string)) {
		for _, name := range []string{"a.pem", "\xff.pem", "\xfe.pem", "a\n\"b\".pem"} {
			add(1, name)
		}
	}}}}, &connLimiter{})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() == "patchbay_ends" {
			for _, x := range f.GetMetric() {
				got = append(got, x.GetLabel()[0].GetValue())
			}
		}
	}
	slices.Sort(got)
	if want := []string{`"\xfe.pem"`, `"\xff.pem"`, "a\n\"b\".pem", "a.pem"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
