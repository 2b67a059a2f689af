package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutdatedSettings checks that a file of an earlier version gets a message with its missing
// lines, and that the file is complete with them.
func TestOutdatedSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "local.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := MissingMetadata(path); got != "" {
		t.Errorf("no file: %s", got)
	}
	whole := string(SettingsFor(Site{}))
	var old []string
	lacks := []string{"  probe: true", `    interfaces: {type: "array[string]"`, `    setup: {`, `    setup_stage: {`, `    services: {`}
	for line := range strings.Lines(whole) {
		keep := true
		for _, l := range lacks {
			keep = keep && !strings.HasPrefix(line, l)
		}
		if keep {
			old = append(old, line)
		}
	}
	for _, tt := range []struct{ rule, text, want string }{
		{"a file of this version", whole, ""},
		{"one without metadata", "instance: a\n", ""},
		{"one of an earlier version", strings.Join(old, ""), "below provider: `  probe: true`, and below attributes: `    interfaces: {"},
		{"another order and other words", strings.Replace(whole, "  probe: true\n", "", 1), "add below provider: `  probe: true`"},
	} {
		write(tt.text)
		got := MissingMetadata(path)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", tt.rule, got)
		}
		if tt.want == "" {
			continue
		}
		// The lines between the marks are added unchanged.
		_, under, _ := strings.Cut(got, "below provider: ")
		under, attributes, _ := strings.Cut(under, "below attributes: ")
		lines := func(text string) (all string) {
			for i, part := range strings.Split(text, "`") {
				if i%2 == 1 {
					all += part + "\n"
				}
			}
			return all
		}
		text := strings.Replace(tt.text, "\nprovider:\n", "\nprovider:\n"+lines(under), 1)
		write(strings.Replace(text, "\n  attributes:\n", "\n  attributes:\n"+lines(attributes), 1))
		if got := MissingMetadata(path); got != "" {
			t.Errorf("%s, with the lines: %s", tt.rule, got)
		}
		if _, err := ReadSettings(path); err != nil {
			t.Error(err)
		}
	}
}
