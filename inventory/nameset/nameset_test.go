package nameset

import (
	"slices"
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	long := strings.Repeat("x", 127)
	for _, tt := range []struct{ rule, names, want string }{
		{"nothing", "", ""},
		{"one", "pc1", "pc1"},
		{"two are no range", "pc1 pc2", "pc1 pc2"},
		{"three are", "pc1 pc2 pc3", "pc1..pc3"},
		{"zeros in front", "n08 n09 n10", "n08..n10"},
		{"no number", "a b c", "a b c"},
		{"another order", "pc3 pc2 pc1", "pc3 pc2 pc1"},
		{"others between", "pc1 pc2 pc3 h pc4", "pc1..pc3 h pc4"},
		{"names that are too long for a range", long + "1 " + long + "2 " + long + "3", long + "1 " + long + "2 " + long + "3"},
	} {
		if got := strings.Join(Fold(strings.Fields(tt.names)), " "); got != tt.want {
			t.Errorf("%s: %q", tt.rule, got)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		rule, text string
		ok         bool
		want       string
	}{
		{"a range", "pc1..pc3", true, "pc1 pc2 pc3"},
		{"the stem once", "pc1..3", true, "pc1 pc2 pc3"},
		{"zeros in front", "n08..n10", true, "n08 n09 n10"},
		{"zeros in front of one that grows", "n098..n101", true, "n098 n099 n100 n101"},
		{"one", "pc7..pc7", true, "pc7"},
		{"numbers only", "1..3", true, "1 2 3"},
		{"a name", "pc1", false, ""},
		{"a name with a hyphen", "pc1-pc3", false, ""},
		{"nothing", "", false, ""},
		{"two dots", "..", true, ""},
		{"no end", "pc1..", true, ""},
		{"no number", "pc..pc3", true, ""},
		{"downwards", "pc3..pc1", true, ""},
		{"two stems", "pc1..vm3", true, ""},
		{"a sign", "pc1..+3", true, ""},
		{"a sign below nothing", "1..-3", true, ""},
		{"three dots", "pc1...pc3", true, ""},
		{"numbers beyond all", "pc1..pc9223372036854775808", true, ""},
		{"zeros without end", "pc" + strings.Repeat("0", maxLength) + "1..2", true, ""},
	} {
		r, ok := Parse(tt.text)
		names := slices.Collect(r.Names())
		if got := strings.Join(names, " "); ok != tt.ok || got != tt.want || r.Len() != len(names) {
			t.Errorf("%s: %v, %d names: %q, want %q", tt.rule, ok, r.Len(), got, tt.want)
		}
	}
	if r, _ := Parse("pc0..pc9223372036854775807"); r.Len() <= 0 {
		t.Errorf("the longest range has %d names", r.Len())
	}
}

// FuzzParse checks that parsing the printed form, and its short form, gives the same names.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"pc1..pc20", "n008..n012", "1..3", "a..b", "pc9..pc10", "..", "x0..x0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := Parse(text)
		if r.Len() < 0 || r.Len() > 0 && !ok {
			t.Fatalf("%d names of %q", r.Len(), text)
		}
		if r.Len() < 3 || r.Len() > 1000 {
			return
		}
		names := slices.Collect(r.Names())
		if len(names) != r.Len() || !strings.HasPrefix(text, names[0]+"..") {
			t.Fatalf("%q has %d names, the first is %q", text, len(names), names[0])
		}
		var again []string
		for _, w := range Fold(names) {
			if r, ok := Parse(w); ok {
				again = append(again, slices.Collect(r.Names())...)
			} else {
				again = append(again, w)
			}
		}
		if !slices.Equal(again, names) {
			t.Fatalf("%q is written %q, and read %q", names, Fold(names), again)
		}
	})
}
