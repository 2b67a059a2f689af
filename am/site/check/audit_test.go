package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/follow/audit"
	"patchbay/am/site"
)

// TestAuditReport checks what is reported about an audit in one file, in two, and that cannot be read.
func TestAuditReport(t *testing.T) {
	dir := t.TempDir()
	c := &site.Config{Audit: filepath.Join(dir, "audit.log")}
	report := func(want ...string) {
		t.Helper()
		var out bytes.Buffer
		k := &Checker{Out: &out, Err: &out}
		k.Audit(c)
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is missing in:\n%s", text, &out)
			}
		}
	}
	report("ok ", "begins when the site is served")
	for _, what := range []string{"lockdown", "thaw"} {
		if err := audit.Note(c.Audit, audit.Act{What: what, Operator: "root"}); err != nil {
			t.Fatal(err)
		}
	}
	report("ok ", "lines since 20", "Z in 1 file, ")
	if err := os.Rename(c.Audit, c.Audit+".1"); err != nil {
		t.Fatal(err)
	}
	if err := audit.Note(c.Audit, audit.Act{What: "lockdown"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.Audit, 0o644); err != nil {
		t.Fatal(err)
	}
	report("Z in 2 files, ", "warning ", "other users may read it", "chmod 600")
	if err := os.Remove(c.Audit); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.Audit, 0o700); err != nil {
		t.Fatal(err)
	}
	report("error ", "is not a regular file")
}
