package site

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlacesInFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	for _, x := range []struct{ text, key, value, want string }{
		{"a: 1\nb: 2\n", "b", "", ":2"},
		{"list:\n  - {name: x}\n  - y\n", "list", "x", ":2"},
		{"list:\n  - {name: x}\n  - y\n", "list", "y", ":3"},
		{"list: [x]\n", "list", "z", ":1"},
		{"provider: a\ncomponents:\n  - names: b\n    provider: b\n", "provider", "b", ":4"},
		{"list: [{b: 1}]\n", "b", "", ""},
		{"[", "a", "", ""},
		{"", "a", "", ""},
	} {
		if err := os.WriteFile(file, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := PlaceOf(file, x.key, x.value); got != file+x.want {
			t.Errorf("%q: %s %s is at %s, want %s", x.text, x.key, x.value, got, x.want)
		}
	}
}
