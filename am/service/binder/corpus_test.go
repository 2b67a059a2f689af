package binder

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestRealRequestsAreBoundAsBefore binds every public request, as a request for this aggregate. The
// digest is that of all results. It was made before nodes with constraints got other types
// and images than the default ones; these requests have no constraints, so it stays the same.
func TestRealRequestsAreBoundAsBefore(t *testing.T) {
	const digest = "67ebabd34dcc0c5f"
	files, err := filepath.Glob(require.Shared(t, "corpus", "rspecs", "request") + "/*")
	if err != nil {
		t.Fatal(err)
	}
	manager := regexp.MustCompile(`component_manager_id=("[^"]*"|'[^']*')`)
	component := regexp.MustCompile(`component_id=("[^"]*"|'[^']*')`)
	v := site(t, strings.Replace(testbed, "unknown_image: refuse", "unknown_image: default", 1))
	options := rspec.ReadOptions{Managers: []urn.URN{{Authority: "example.org", Type: urn.Authority, Name: "cm"}}, Limits: rspec.DefaultLimits()}
	all, bound := sha256.New(), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ours := manager.ReplaceAllString(string(text), `component_manager_id="urn:publicid:IDN+example.org+authority+cm"`)
		for _, document := range []string{ours, component.ReplaceAllString(ours, "")} {
			r, err := rspec.ParseRequest([]byte(document), options)
			if err != nil {
				continue
			}
			b, err := bind(r, holding(v, "s h1 vm", "s pc1 raw-pc"), slice("mine"))
			if err == nil {
				bound++
			}
			text := result(b, err)
			fmt.Fprintln(all, text)
			t.Logf("%s: %.200s", filepath.Base(file), text)
		}
	}
	if got := fmt.Sprintf("%x", all.Sum(nil))[:16]; got != digest {
		t.Errorf("the digest is %s, want %s; %d requests were bound", got, digest, bound)
	}
}
