package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSamplePolicyFitsAFreshSiteWhenUncommented(t *testing.T) {
	dir, site := lockable(t)
	var text strings.Builder
	begun := false
	for line := range strings.Lines(string(samplePolicy)) {
		begun = begun || strings.HasPrefix(line, "# rules:")
		if begun {
			text.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		}
	}
	explained := func(sample string, want ...string) {
		t.Helper()
		write(t, filepath.Join(dir, "policy.yaml"), sample)
		code, out := site("check", filepath.Join(dir, "policy.yaml"))
		if code != 0 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, want...)
	}
	explained(text.String(), `rule "guests", for example.net:**+user+*: nothing new: This site is for members`, `rule "students", for example.org:course-*+user+*`, "whom no rule fits may have nothing")

	// What has two signs needs a file first.
	if err := os.WriteFile(filepath.Join(dir, "terms-accepted"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	all := strings.NewReplacer("# sliver_types:", "sliver_types:", "# components:", "components:", "# terms:", "terms:").Replace(text.String())
	explained(all, "only vm on only vm1..vm4", "once accepted https://testbed.example.org/terms")
}
