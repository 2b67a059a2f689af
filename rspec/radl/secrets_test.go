package radl_test

import (
	"strings"
	"testing"

	"patchbay/rspec/radl"
)

// TestWithoutSecrets requires that no secret is left, that each has a warning with its place, and
// that the cleaned document is still a document.
func TestWithoutSecrets(t *testing.T) {
	const source = `ansible a (host = 'h' and credentials.username = 'alice' and credentials.password = 'sesame1' and credentials.private_key = 'sesame2')
network n (proxy_host = 'alice:sesame3@example.org:22' and
  proxy_key = 'sesame4')
system s (disk.0.os.credentials.password = 'sesame5' and disk.0.os.credentials.new.password = 'Sesame+6' and
  disk.0.os.credentials.private_key = 'sesame7' and disk.0.os.credentials.username = 'alice' and disk.0.os.credentials.public_key = 'ssh-rsa AAAA' and
  s3.0.secret_key = 'sesame8' and s3.0.access_key = 'sesame9' and soft 5 (disk.0.os.credentials.password = 'sesame10'))
description d (token = 'sesame11')
`
	d, problems := radl.Parse([]byte(source), nil)
	if d == nil {
		t.Fatal(problems)
	}
	before := string(d.Text())
	cleaned, warnings := d.WithoutSecrets()
	for _, text := range [][]byte{cleaned.Text(), cleaned.JSON()} {
		if strings.Contains(strings.ToLower(string(text)), "sesame") {
			t.Errorf("R14: a secret is left in\n%s", text)
		}
		for _, kept := range []string{"alice@example.org:22", "ssh-rsa AAAA", "credentials.username"} {
			if !strings.Contains(string(text), kept) {
				t.Errorf("%q is not in\n%s", kept, text)
			}
		}
	}
	lines := map[int]int{}
	for _, w := range warnings {
		lines[w.Line]++
		if !w.IsRemark() || strings.Contains(strings.ToLower(w.String()), "sesame") {
			t.Errorf("warning %v", w)
		}
	}
	if lines[1] != 0 || // it has a warning for the whole sentence
		lines[2] != 1 || lines[3] != 1 || lines[4] != 2 || lines[5] != 1 || lines[6] != 3 || lines[7] != 1 {
		t.Errorf("warnings by line: %v", lines)
	}
	if string(d.Text()) != before {
		t.Error("the document itself has changed")
	}
	roundTrip(t, "cleaned", cleaned)
	again, _ := radl.Parse(cleaned.Text(), nil)
	if _, warnings := again.WithoutSecrets(); len(warnings) != 0 {
		t.Errorf("a cleaned document has secrets: %v", warnings)
	}
}
