package check

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLinesOfSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a: 1\n\nlist:\n  - {name: x}\n  - y\n")
	lines := readSettingLines(file)
	for want, got := range map[string]string{
		":1": lines.at("a"), ":3": lines.at("list"), ":4": lines.at("list", "x"), ":5": lines.at("list", "y"), "": lines.at("b"),
	} {
		if got != file+want {
			t.Errorf("got %s, want %s", got, file+want)
		}
	}
	if got := lines.at("list", "z"); got != file+":3" {
		t.Errorf("a name that is not in the list is at %s", got)
	}
	for _, text := range []string{"", "[", "- a"} {
		write(text)
		if got := readSettingLines(file).at("a"); got != file {
			t.Errorf("%q: %s", text, got)
		}
	}
}
