package compile_test

import (
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec/compile"
)

// BenchmarkThousandNodes compiles a source with 1,000 nodes on one network; it should take less than
// 100 ms.
func BenchmarkThousandNodes(b *testing.B) {
	site, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		b.Fatal(err)
	}
	text := []byte(strings.Replace(cluster, "deploy node 2", "deploy node 1000", 1))
	for b.Loop() {
		if _, err := compile.Compile(text, compile.Options{Site: site, Parameters: map[string]string{"CPUs": "2"}}); err != nil {
			b.Fatal(err)
		}
	}
}
