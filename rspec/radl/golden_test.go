package radl_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/require"
	"patchbay/rspec"
	"patchbay/rspec/radl"
)

var update = flag.Bool("update", false, "write the files in testdata")

// golden compares the text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// TestCorpusCompiles compiles each document of the corpus that Parse accepts, without a site, with
// a node of each system, and compares the outcomes with testdata/corpus-compiled.txt.
func TestCorpusCompiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "radl"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	var outcome strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, _ := radl.Parse(text, map[string]string{"CPUs": "2", "NumNodes": "3"})
		if d == nil {
			continue
		}
		for i := range d.Systems {
			id := d.Systems[i].ID
			if !slices.ContainsFunc(d.Deploys, func(x radl.Deploy) bool { return x.System == id }) {
				d.Deploys = append(d.Deploys, radl.Deploy{System: id, Count: 1})
			}
		}
		fmt.Fprintf(&outcome, "%s: ", filepath.Base(file))
		r, problems := radl.Compile(d, radl.Options{})
		if r == nil {
			problems = slices.DeleteFunc(problems, rspec.Problem.IsRemark)
			fmt.Fprintf(&outcome, "refused: %s\n", strings.Join(rspec.Lines(problems), " | "))
			continue
		}
		check(t, string(r.Write()), nil)
		steps := 0
		for i := range r.Nodes {
			steps += len(r.Nodes[i].Steps)
		}
		fmt.Fprintf(&outcome, "%d nodes, %d links, %d steps, %d warnings\n", len(r.Nodes), len(r.Links), steps, len(problems))
	}
	golden(t, "corpus-compiled.txt", outcome.String())
}

// TestCluster compiles a front end and two workers, with contextualize steps.
func TestCluster(t *testing.T) {
	source, err := os.ReadFile("testdata/cluster.radl")
	if err != nil {
		t.Fatal(err)
	}
	request, problems := compile(t, string(source), radl.Options{Site: inventoryOf(t, "")})
	golden(t, "cluster.xml", request)
	golden(t, "cluster.txt", strings.Join(problems, "\n")+"\n")
}
