package session

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestTextsOfOthersAreEscapedForTerminals proves that names of files in a user's folder, and
// of nodes in a manifest, are escaped for terminals.
func TestTextsOfOthersAreEscapedForTerminals(t *testing.T) {
	s := &Session{Choice: Selection{Site: new(ChosenSite)}, Dir: t.TempDir()}
	if err := os.Mkdir(s.File("slices"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lab", "\x1b]0;title\x07", "a\nb", "\u009b2J"} {
		if err := os.WriteFile(s.SliceFile(name, ".request.xml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if line := s.Hint("ssh", name); strings.ContainsFunc(line, unicode.IsControl) {
			t.Errorf("%q", line)
		}
	}
	if got := s.Experiments(); !slices.Equal(got, []string{"lab"}) {
		t.Errorf("%q", got)
	}
}
