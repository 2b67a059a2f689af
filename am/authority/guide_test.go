package authority

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestGuideRights compares the table in the guide with the table of rights.
func TestGuideRights(t *testing.T) {
	const file, begin, end = "../../cmd/patchbay/guide/authority.md", "-run TestGuideRights -update -->\n", "<!-- end of the table -->"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(content), begin)
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("the guide has no place for the table")
	}
	table := "| Object | Action | Who |\n|---|---|---|\n"
	for _, r := range rights {
		table += fmt.Sprintf("| %s | %s | %s |\n", r.Object, r.Action, r.Who)
	}
	want := head + begin + table + end + tail
	if *updateAnswers {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(content) {
		t.Error("the table in the guide is not that of the program; run this test with -update")
	}
}
