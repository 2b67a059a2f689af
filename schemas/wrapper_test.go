package schemas_test

import (
	"path/filepath"
	"testing"

	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// TestEmbeddedFilesJudgeAsXmllintDoes has xmllint use the files of this folder, and compares its
// findings with those of the embedded schemas, by position.
func TestEmbeddedFilesJudgeAsXmllintDoes(t *testing.T) {
	docs := corpus(t)
	for mode, schema := range map[string]func(schemas.Kind) *xmltree.Schema{"core": xmltree.Core, "known": xmltree.Known} {
		for _, k := range schemas.Kinds() {
			var these []document
			for i, d := range docs {
				if i%2 == 0 { // a sample is enough
					these = append(these, document{name: d.name, text: d.text, kind: k})
				}
			}
			file := schemas.Core(k)
			if mode == "known" {
				file = schemas.Known(k)
			}
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			wait := xmllint(t, path, these)
			trees := ours(t, schema, these)
			places := 0
			for i, v := range wait() {
				d := trees[i]
				if v.valid != (len(d.found) == 0) {
					t.Errorf("%s by %s: xmllint says valid = %v, we find %v", these[i].name, file, v.valid, few(d.found))
				}
				if len(d.found) >= xmltree.MaxFindings {
					continue
				}
				for _, r := range v.found {
					if !d.told(d.meant(r)) {
						t.Errorf("%s by %s: not reported: %v", these[i].name, file, r)
					}
					places++
				}
			}
			if places == 0 {
				t.Errorf("%s found nothing anywhere", file)
			}
		}
	}
}
