//go:build !attack

package rule_test

import (
	"go/build"
	"slices"
	"testing"

	"patchbay/credentials/rule"
)

func TestBrokenReturnsItsArgument(t *testing.T) {
	for _, found := range []bool{true, false} {
		if rule.Digest.Broken(found) != found {
			t.Errorf("found %v, broken %v", found, !found)
		}
	}
}

// TestProgramsCannotSwitchRulesOff shows that the files off.go are built only with the
// tag attack.
func TestProgramsCannotSwitchRulesOff(t *testing.T) {
	for _, dir := range []string{".", "../dsig", "../../schemas/xmltree"} {
		p, err := build.Default.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(p.GoFiles, "off.go") || slices.Contains(p.CgoFiles, "off.go") || !slices.Contains(p.IgnoredGoFiles, "off.go") {
			t.Errorf("%s: off.go is built", dir)
		}
	}
}
