package site

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am/server"
	"patchbay/rspec"
)

// The new site's configuration has every key, with defaults commented out. Without the comment
// signs it must have the same meaning as an empty configuration.
func TestNewConfigShowsTheDefaults(t *testing.T) {
	text := string(ConfigText("a.example.org", ":8443", "", false))
	shown := regexp.MustCompile(`(?m)^# ( *[a-z0-9_]+:)`).ReplaceAllString(text, "$1")
	got, err := ParseConfig("/site/patchbay.yaml", []byte(shown))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings(&Config{}) {
		if got.Origin.lines[s.key] == 0 {
			t.Errorf("the key %s is not shown", s.key)
		}
	}
	want, err := ParseConfig("/site/patchbay.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got.PublicURL, got.Admin, got.Metrics, got.Web = want.PublicURL, want.Admin, want.Metrics, want.Web // examples: the default depends on the host
	d, r := server.DefaultConfig(), rspec.DefaultLimits()
	limits := LimitsConfig{server.Config{
		MaxBody: d.MaxBody, MaxCallsPerCaller: d.MaxCallsPerCaller, MaxChangesBurst: d.MaxChangesBurst, MaxChangesPerMinute: d.MaxChangesPerMinute,
		MaxConnections: d.MaxConnections, HeaderTimeout: d.HeaderTimeout, StallTimeout: d.StallTimeout, ReadTimeout: d.ReadTimeout, IdleTimeout: d.IdleTimeout,
	}, rspec.Limits{Bytes: r.Bytes, Depth: r.Depth, Nodes: r.Nodes, Links: r.Links}}
	if got.Limits != limits {
		t.Errorf("limits are shown as %+v, and are %+v", got.Limits, limits)
	}
	got.Limits, got.Origin, want.Origin = want.Limits, origin{}, origin{}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(Config{}, origin{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-default +shown\n%s", d)
	}
}

// TestNewConfigQuotesTexts creates sites whose names are no texts in YAML without quotes.
func TestNewConfigQuotesTexts(t *testing.T) {
	for _, name := range []string{"true", "null", "1e3", "0x1f", "1.10", "2026-01-01", "yes", "a:b"} {
		c, err := ParseConfig("/site/patchbay.yaml", ConfigText(name, ":8443", "", false))
		if err != nil || c.Authority != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingConfigNamesTheRemedy(t *testing.T) {
	_, err := ReadConfig(filepath.Join(t.TempDir(), "patchbay.yaml"))
	if err == nil || !strings.Contains(err.Error(), "patchbay init") {
		t.Errorf("got %v", err)
	}
}
