package api

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

var (
	anyManager   = regexp.MustCompile(`component_manager_id=("[^"]*"|'[^']*')`)
	anyComponent = regexp.MustCompile(`\scomponent_id=("[^"]*"|'[^']*')`)
	anyExclusive = regexp.MustCompile(`exclusive=("true"|'true'|"1")`)
	linkManager  = regexp.MustCompile(`<component_manager name=[^>]*>`)
)

// TestRealRequests sends every public request to a site that has room for all of them: as it is,
// and with its nodes assigned to this aggregate. Each gets a code that the API defines for such a
// request, and each slice that is created is deleted completely.
func TestRealRequests(t *testing.T) {
	files, _ := filepath.Glob(require.Shared(t, "corpus", "rspecs", "request") + "/*")
	s := setting{alias: `"*"`}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 24*time.Hour)
	outcomes := map[string]map[am.Code]int{"as it is": {}, "made ours": {}}
	ran := 0
	for i, file := range files {
		if !require.Daily(i, 3) {
			continue
		}
		ran++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ours := anyManager.ReplaceAllString(string(text), `component_manager_id="urn:publicid:IDN+example.org+authority+cm"`)
		ours = linkManager.ReplaceAllString(anyExclusive.ReplaceAllString(anyComponent.ReplaceAllString(ours, ""), `exclusive="false"`), `<component_manager name="urn:publicid:IDN+example.org+authority+cm"/>`)
		for how, rspec := range map[string]string{"as it is": string(text), "made ours": ours} {
			rspec = strings.ToValidUTF8(rspec, "?")
			a := alice.call("Allocate", slice, creds(cred), rspec, opts())
			outcomes[how][a.code]++
			switch a.code {
			case am.Success:
			case am.BadArgs, am.BadVersion, am.TooBig, am.SearchFailed, am.Unsupported:
				if a.output == "" {
					t.Errorf("%s %s: refused without a word", filepath.Base(file), how)
				}
				continue
			default:
				t.Errorf("%s %s: code %d %s (%v)", filepath.Base(file), how, a.code, a.output, a.resp.Event.Err)
				continue
			}
			n := len(a.slivers(t))
			if n == 0 { // the request has neither nodes nor links
				if !strings.Contains(a.output, "nothing is reserved") {
					t.Errorf("%s %s: no slivers, and output says %q", filepath.Base(file), how, a.output)
				}
				continue
			}
			for _, call := range []struct {
				method string
				params []any
			}{
				{"Provision", nil}, {"Describe", nil}, {"PerformOperationalAction", []any{"geni_start"}}, {"Status", nil}, {"Describe", nil}, {"Delete", nil},
			} {
				b := alice.call(call.method, append(append([]any{strs(slice), creds(cred)}, call.params...), opts())...)
				if b.code != am.Success || len(b.slivers(t)) != n {
					t.Fatalf("%s %s: %s: code %d %s, want %d slivers", filepath.Base(file), how, call.method, b.code, b.output, n)
				}
				if m, ok := get(b.value, "geni_rspec").(string); ok {
					wellFormed(t, filepath.Base(file), m)
				}
				s.settle()
			}
		}
	}
	t.Logf("outcomes by code: %v", outcomes)
	if outcomes["made ours"][am.Success] < ran/2 {
		t.Errorf("only %d of %d requests live", outcomes["made ours"][am.Success], ran)
	}
	if left, _ := s.store.Slivers(); len(left) != 0 {
		t.Errorf("%d slivers are left", len(left))
	}
}

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: the manifest is not well-formed: %v", name, err)
		}
	}
}
