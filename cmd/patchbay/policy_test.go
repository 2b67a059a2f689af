package main

import (
	"strings"
	"testing"

	"patchbay/am/site/create"
	"patchbay/am/testkit/program"
)

func TestTheSamplePolicyFitsAFreshSiteWhenUncommented(t *testing.T) {
	k := newBackupTest(t)
	file := k.path("policy.yaml")
	var text strings.Builder
	begun := false
	for line := range strings.Lines(string(create.SamplePolicy)) {
		begun = begun || strings.HasPrefix(line, "# rules:")
		if begun {
			text.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		}
	}
	explained := func(sample string, want ...string) {
		t.Helper()
		program.Write(t, file, sample)
		k.runOK([]string{"check", file}, want...)
	}
	explained(text.String(), `rule "guests", for example.net:**+user+*: nothing new: This site is for members`, `rule "students", for example.org:course-*+user+*`, "users that match no rule may reserve nothing")

	// Lines with two # need a file first.
	program.Write(t, k.path("terms-accepted"), "")
	all := strings.NewReplacer("# sliver_types:", "sliver_types:", "# components:", "components:", "# terms:", "terms:").Replace(text.String())
	explained(all, "only vm on only vm1..vm4", "only for users who have accepted https://testbed.example.org/terms")
}
