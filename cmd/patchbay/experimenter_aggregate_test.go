package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadAggregate proves which contents of aggregate.yaml are valid.
func TestReadAggregate(t *testing.T) {
	dir := t.TempDir()
	if _, err := readAggregate(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, c := range []struct {
		rule, text string
		want       aggregate
		wrong      string
	}{
		{"URL and CA", "url: https://am.example.org:8443/am/3.0\nca: server-ca.pem\n", aggregate{URL: "https://am.example.org:8443/am/3.0", CA: filepath.Join(dir, "server-ca.pem")}, ""},
		{"authority", "url: https://am.example.org:8443/am/3.0\nauthority: https://am.example.org:8443/\n", aggregate{URL: "https://am.example.org:8443/am/3.0", Authority: "https://am.example.org:8443"}, ""},
		{"authority by HTTP", "url: https://am.example.org\nauthority: http://am.example.org\n", aggregate{}, "aggregate.yaml:2: authority must be like https://"},
		{"URL alone", "url: https://am.example.org:8443/am/3.0\n", aggregate{URL: "https://am.example.org:8443/am/3.0"}, ""},
		{"no URL", "ca: server-ca.pem\n", aggregate{}, "has no url; add one"},
		{"empty", "\n", aggregate{}, "url"},
		{"plain HTTP", "url: http://am.example.org/\n", aggregate{}, "aggregate.yaml:1: url must be like https://"},
		{"CA elsewhere", "url: https://am.example.org\nca: ../../etc/ca.pem\n", aggregate{}, "aggregate.yaml:2: ca must name a file in this folder"},
		{"unknown key", "ulr: https://am.example.org\n", aggregate{}, `did you mean "url"?`},
		{"no mapping", "[1, 2]\n", aggregate{}, "must be a list of keys and values: url, ca, authority"},
	} {
		write(t, filepath.Join(dir, aggregateName), c.text)
		switch got, err := readAggregate(dir); {
		case c.wrong == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v; want %+v", c.rule, got, err, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.rule, err, c.wrong)
		}
	}
}
