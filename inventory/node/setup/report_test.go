package setup

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestReports(t *testing.T) {
	long := Report{State: Failed, Exit: 3, Message: strings.Repeat("ä", 400) + "\n", Output: "first" + strings.Repeat("ü\x00", 2000) + "\r\n\t\x1b[2J\u009b", Progress: "1 %"}
	var got []Report
	err := ReadReports(bytes.NewReader(slices.Concat(Report{State: Running, Progress: "45 %"}.encode(), long.encode(), []byte("more"))), func(r Report) { got = append(got, r) })
	if err != nil || len(got) != 2 || got[0] != (Report{State: Running, Progress: "45 %"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := got[1]; r.State != Failed || r.Exit != 3 || len(r.Message) > maxMessage || len(r.Output) > MaxOutput || strings.Contains(r.Output, "first") || !utf8.ValidString(r.Output+r.Message) || !strings.HasSuffix(r.Output, "ü  \n\t [2J ") {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct{ rule, text, err string }{
		{"no JSON", "patchbay-setup: it must run as root\n", "cannot be read"},
		{"an unknown state", `{"state":"perhaps"}` + "\n", "perhaps"},
		{"a line without end", strings.Repeat("x", maxLine+1), "more than"},
		{"a cut line", `{"state":"done"`, "cannot be read"},
	} {
		if err := ReadReports(strings.NewReader(tt.text), func(Report) {}); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.err)
		}
	}
}

func FuzzReadReports(f *testing.F) {
	f.Add([]byte(`{"state":"failed","exit":-1,"message":"a\nb","output":"\u0000"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = ReadReports(bytes.NewReader(text), func(r Report) {
			if len(r.Message) > maxMessage || len(r.Output) > MaxOutput || len(r.Progress) > maxProgress || r.Exit < 0 || r.Exit > 255 ||
				!utf8.ValidString(r.Message+r.Output+r.Progress) || strings.ContainsFunc(r.Message+r.Progress+strings.NewReplacer("\n", "", "\t", "").Replace(r.Output), unicode.IsControl) {
				t.Errorf("%+v", r)
			}
		})
	})
}
