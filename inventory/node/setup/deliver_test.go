package setup

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/rspec/step"
)

func TestDeliveredFile(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for _, tt := range []struct{ rule, input, problem string }{
		{"complete", abc + "abc", ""},
		{"cut off", abc + "ab", "not transferred completely"},
		{"another content", abc + "abd", "not transferred completely"},
		{"no digest", "abc", "unexpected EOF"},
		{"a path as digest", "../" + abc[3:] + "abc", "not hexadecimal"},
	} {
		dir := t.TempDir()
		s, err := folders{services: filepath.Join(dir, "services")}.open(1)
		if err != nil {
			t.Fatal(err)
		}
		err = s.takeDelivered(strings.NewReader(tt.input))
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.problem)
		}
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		url := step.DeliveredURL("web.tar.gz", abc)
		c := &client{delivered: s}
		_, err = c.fetch(t.Context(), url, f, func(string) {})
		if (err == nil) != (tt.problem == "") || err != nil && err.Error() != "the site has not delivered the file" {
			t.Errorf("%s: fetch: %v", tt.rule, err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || (string(got) == "abc") != (tt.problem == "") {
			t.Errorf("%s: %q, %v", tt.rule, got, err)
		}
		f.Close()
		s.removeDelivered([]*string{&url})
		if left, _ := filepath.Glob(filepath.Join(dir, "services", "*deliver*")); len(left) > 0 {
			t.Errorf("%s: left: %v", tt.rule, left)
		}
		s.lock.Close()
	}
}
