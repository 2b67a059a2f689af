package compile_test

import (
	"errors"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// FuzzCompile requires that a text compiles to a valid request or has mistakes, and that the source
// without secrets compiles, too.
func FuzzCompile(f *testing.F) {
	f.Add(cluster)
	f.Add("system a (disk.0.os.credentials.password = '@input.CPUs@' and cpu.count >= 1)\ndeploy a 1")
	f.Add(`[{"class": "system", "id": "a", "cpu.count_min": 2}, {"class": "deploy", "system": "a", "vm_number": 2}]`)
	site, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		o := compile.Options{Site: site, Parameters: map[string]string{"CPUs": "2"}, Work: rspec.NewWork(t.Context())}
		r, err := compile.Compile([]byte(source), o)
		if err != nil {
			if _, ok := errors.AsType[*compile.Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		err = xmltree.Parse(r.Request, xmltree.Limits{}, func(d *xmltree.Doc) error {
			for _, finding := range d.Validate(xmltree.Known(schemas.Request)) {
				t.Errorf("line %d: %s", finding.Line, finding.Msg)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if again, err := compile.Compile(r.Source, o); err != nil {
			t.Errorf("the source without secrets is refused: %v\n%s", err, r.Source)
		} else if len(again.Nodes) != len(r.Nodes) {
			t.Errorf("the source without secrets has %d nodes of %d:\n%s", len(again.Nodes), len(r.Nodes), r.Source)
		}
	})
}
