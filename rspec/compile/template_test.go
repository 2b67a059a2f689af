package compile_test

import (
	"strings"
	"testing"

	"patchbay/rspec"
	"patchbay/rspec/compile"
)

func TestExpand(t *testing.T) {
	earlier := []rspec.Template{
		{Language: compile.RADL, Text: []byte("system a (memory.size >= @input.N@M)\n"), Parameters: map[string]string{"N": "64"}},
		{Language: "other", Text: []byte("{")},
		{Language: compile.RADL, Text: []byte("system b ()\n")},
	}
	x, err := compile.Expand(rspec.Template{Language: compile.RADL, Text: []byte("deploy a @input.N@\ndeploy b 1\n"), Parameters: map[string]string{"N": "1"}}, earlier, compile.Options{Nodes: []string{"a-4"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`client_id="a-5"`, `client_id="b-0"`, `value="64M"`} {
		if !strings.Contains(string(x.Request), want) {
			t.Errorf("no %s in %s", want, x.Request)
		}
	}
	if _, err := compile.Expand(rspec.Template{Language: compile.RADL, Text: []byte("deploy b 1\n")}, earlier[:2], compile.Options{}); err == nil || !strings.Contains(err.Error(), "b") {
		t.Errorf("an unknown name: %v", err)
	}
}
