package require_test

import (
	"fmt"
	"runtime"
	"testing"

	"patchbay/am/testkit/require"
)

// double replaces a test and records how it ended.
type double struct {
	testing.TB
	outcome string
}

func (d *double) Helper() {}
func (d *double) Skipf(format string, args ...any) {
	d.outcome = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (d *double) Fatalf(format string, args ...any) {
	d.outcome = "fail: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func outcome(f func(testing.TB)) string {
	d := &double{outcome: "ran"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(d)
	}()
	<-done
	return d.outcome
}

func TestRequiredToolsAreNotSkipped(t *testing.T) {
	dir := t.TempDir()
	tool := func(t testing.TB) { require.Tool(t, "no-such-program") }
	for _, c := range []struct {
		name, require, corpus string
		f                     func(testing.TB)
		want                  string
	}{
		{"PresentToolRuns", "", "", func(t testing.TB) { require.Tool(t, "sh") }, "ran"},
		{"MissingToolSkips", "openssl", "", tool, "skip: the program no-such-program is not installed"},
		{"MissingRequiredToolFails", "root, no-such-program", "", tool, "fail: required by PATCHBAY_REQUIRE: the program no-such-program is not installed"},
		{"UnsetCorpusSkips", "", "", func(t testing.TB) { require.Shared(t) }, "skip: PATCHBAY_CORPUS does not name the folder of the corpus"},
		{"UnsetRequiredCorpusFails", "shared", "", func(t testing.TB) { require.Shared(t) }, "fail: required by PATCHBAY_REQUIRE: PATCHBAY_CORPUS does not name the folder of the corpus"},
		{"PresentCorpusRuns", "shared", dir, func(t testing.TB) { require.Shared(t) }, "ran"},
		{"IncompleteCorpusSkips", "", dir, func(t testing.TB) { require.Shared(t, "rspecs") }, "skip: the corpus is incomplete: stat " + dir + "/rspecs: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PATCHBAY_REQUIRE", c.require)
			t.Setenv("PATCHBAY_CORPUS", c.corpus)
			if got := outcome(c.f); got != c.want {
				t.Errorf("outcome\n got %q\nwant %q", got, c.want)
			}
		})
	}
}
