package display

import "testing"

func TestSuggest(t *testing.T) {
	for _, tt := range []struct{ want, got string }{
		{"vm", "vm"}, {"VM", "vm"}, {"raw-cp", "raw-pc"}, {"rawpc", "raw-pc"}, {"xen", ""}, {"", ""}, {"v", ""}, {"vn", "vm"}, {"containers", "container"},
	} {
		if got := Suggest(tt.want, []string{"raw-pc", "vm", "container"}); got != tt.got {
			t.Errorf("Suggest(%q) = %q, want %q", tt.want, got, tt.got)
		}
	}
}
