package check

import (
	"bytes"
	"strings"
	"testing"
)

// TestStandardInput checks what may be read from standard input. Other files need their folder.
func TestStandardInput(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a blueprint", "components: {a: {type: server}}\n", "ok       standard input: a valid request"},
		{"RADL", "system a ()\ndeploy a 1\n", "ok       standard input: a valid request"},
		{"a configuration", "authority: example.org\n", "error    standard input: only RSpecs, RADL, blueprints, credentials and certificates"},
		{"neither", "[1\n", "error    standard input: this is neither YAML nor XML"},
	} {
		var out bytes.Buffer
		k := &Checker{Out: &out, Err: &out}
		if k.text(t.Context(), standardInput, []byte(tt.text)); !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, &out, tt.want)
		}
	}
}
