package check

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExcerptsShowThePlace(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct {
		name, text   string
		line, column int
		want         string
	}{
		{"Mark", "a\nbc\n", 2, 2, "     2 | bc\n       |  ^\n"},
		{"NoColumn", "a\nbc", 2, 0, "     2 | bc\n"},
		{"ByteOrderMark", "\ufeffab", 1, 2, "     1 | ab\n       |  ^\n"},
		{"CRLF", "ab\r\ncd\r\n", 1, 1, "     1 | ab\n       | ^\n"},
		{"Tabs", "\t\tab", 1, 3, "     1 |   ab\n       |   ^\n"},
		{"Behind", "ab", 1, 9, "     1 | ab\n       |   ^\n"},
		{"NoSuchLine", "ab", 2, 1, ""},
		{"NoLine", "ab", 0, 0, ""},
		{"Long", long, 1, 100, "     1 | …" + strings.Repeat("é", 50) + strings.Repeat("é", 49) + "…\n       | " + strings.Repeat(" ", 51) + "^\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, newExcerpts([]byte(c.text)).at(c.line, c.column)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
