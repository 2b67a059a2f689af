package steprunner

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/inventory/node/setup"
	plan "patchbay/rspec/step"
)

func TestDeliver(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.tar.gz"), []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	other := strings.Repeat("0", 64)
	for _, tt := range []struct{ rule, url, sent, message string }{
		{"a URL", "http://example.org/web.tar.gz", "", ""},
		{"a file", plan.DeliveredURL("web.tar.gz", abc), abc + "abc", ""},
		{"without a digest", "catalogue:web.tar.gz", "", ""}, // the node refuses it
		{"another digest", plan.DeliveredURL("web.tar.gz", other), "", "the file web.tar.gz of the catalogue changed after the site was read; the operator runs: patchbay reload; then delete this node and make it again, since its steps name the earlier file"},
		{"missing", plan.DeliveredURL("db.tar.gz", abc), "", "the file db.tar.gz of the site's catalogue cannot be read; its operators can see why by: patchbay check"},
		{"a path", plan.DeliveredURL("../web.tar.gz", abc), "", ""},
	} {
		order, err := json.Marshal(setup.Assignment{Step: plan.Step{Kind: plan.Execute, Shell: "sh", Script: "a", Files: []plan.File{{Path: "a", URL: tt.url}, {Path: "b", URL: tt.url}}}})
		if err != nil {
			t.Fatal(err)
		}
		var sent strings.Builder
		r, err := Deliver(dir, order, func(file io.Reader) (setup.Report, error) {
			_, err := io.Copy(&sent, file)
			return setup.Report{State: setup.Done}, err
		})
		if err != nil || sent.String() != tt.sent || r.Message != tt.message || r.Ended() != (tt.message != "") {
			t.Errorf("%s: sent %q, report %+v, %v", tt.rule, sent.String(), r, err)
		}
	}
}
