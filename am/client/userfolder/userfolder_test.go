package userfolder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadAggregate proves which contents of aggregate.yaml are valid.
func TestReadAggregate(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadAggregate(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, c := range []struct {
		rule, text string
		want       Aggregate
		wrong      string
	}{
		{"URL and CA", "url: https://am.example.org:8443/am/3.0\nca: server-ca.pem\n", Aggregate{URL: "https://am.example.org:8443/am/3.0", CA: filepath.Join(dir, "server-ca.pem")}, ""},
		{"authority", "url: https://am.example.org:8443/am/3.0\nauthority: https://am.example.org:8443/\n", Aggregate{URL: "https://am.example.org:8443/am/3.0", Authority: "https://am.example.org:8443"}, ""},
		{"authority by HTTP", "url: https://am.example.org\nauthority: http://am.example.org\n", Aggregate{}, "aggregate.yaml:2: authority must be like https://"},
		{"URL alone", "url: https://am.example.org:8443/am/3.0\n", Aggregate{URL: "https://am.example.org:8443/am/3.0"}, ""},
		{"no URL", "ca: server-ca.pem\n", Aggregate{}, "has no url; add one"},
		{"empty", "\n", Aggregate{}, "url"},
		{"plain HTTP", "url: http://am.example.org/\n", Aggregate{}, "aggregate.yaml:1: url must be like https://"},
		{"CA elsewhere", "url: https://am.example.org\nca: ../../etc/ca.pem\n", Aggregate{}, "aggregate.yaml:2: ca must name a file in this folder"},
		{"unknown key", "ulr: https://am.example.org\n", Aggregate{}, `did you mean "url"?`},
		{"no mapping", "[1, 2]\n", Aggregate{}, "must be a list of keys and values: url, ca, authority"},
	} {
		if err := os.WriteFile(filepath.Join(dir, AggregateName), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		switch got, err := ReadAggregate(dir); {
		case c.wrong == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v; want %+v", c.rule, got, err, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.rule, err, c.wrong)
		}
	}
}

func TestSuggestionsNameExistingFiles(t *testing.T) {
	for _, c := range []struct {
		want string
		have []string
		says string
	}{
		{"frist", []string{"first", "second"}, "did you mean first? Or "},
		{"First", []string{"first"}, "did you mean first? Or "},
		{"nosuch", []string{"first", "second"}, "there are first, second; or "},
		{"nosuch", []string{"first"}, "there is only first; or "},
		{"nosuch", nil, ""},
		{"zzzzzz", strings.Split("abcdefghijkl", ""), "there are a, b, c, d, e, f, g, h, i, j and 2 more; or "},
	} {
		if got := SuggestNames(c.want, c.have); got != c.says {
			t.Errorf("%s of %v: %q, want %q", c.want, c.have, got, c.says)
		}
	}
}
