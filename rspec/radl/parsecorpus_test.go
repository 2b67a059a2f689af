package radl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/rspec/radl"
)

// corpusRules names the rule of the first mistake in a document of the corpus.
var corpusRules = []struct {
	rule   string
	isThat func(msg string) bool
}{
	{"YAML is not RADL", regexp.MustCompile(`is YAML, not RADL`).MatchString},
	{"a sentence begins with a keyword", regexp.MustCompile(`where a sentence must begin`).MatchString},
	{"ids", regexp.MustCompile(`in place of the id`).MatchString},
	{"features are name, comparison and value", regexp.MustCompile(`where a feature must begin`).MatchString},
	{"ports are from 1 to 65535", regexp.MustCompile(`no number from 1 to 65535`).MatchString},
	{"new passwords are strong", regexp.MustCompile(`too weak`).MatchString},
	{"a connection names a network of the document", regexp.MustCompile(`there is no network`).MatchString},
	{"a router names a system of the document", regexp.MustCompile(`there is no system`).MatchString},
	{"a text feature has one value", regexp.MustCompile(`, but .* in line`).MatchString},
}

// TestCorpusParses parses each document of the corpus, compares the outcomes with
// testdata/corpus-parsed.txt, and requires that the text and the JSON form of each accepted document
// parse to the same document.
func TestCorpusParses(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "radl"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	var outcome strings.Builder
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".tsv") {
			continue
		}
		d, problems := radl.Parse(text, map[string]string{"CPUs": "2", "NumNodes": "3"})
		if d != nil {
			fmt.Fprintf(&outcome, "%s: accepted\n", name)
			if !radl.IsRADL(text) {
				t.Errorf("%s: IsRADL does not recognize it", name)
			}
			roundTrip(t, name, d)
			continue
		}
		first := problems[0]
		rule := first.Msg
		for _, r := range corpusRules {
			if r.isThat(first.Msg) {
				rule = r.rule
				break
			}
		}
		fmt.Fprintf(&outcome, "%s: refused at line %d: %s\n", name, first.Line, rule)
		if radl.IsRADL(text) && strings.HasSuffix(name, ".yml") {
			t.Errorf("%s: IsRADL takes TOSCA for RADL", name)
		}
	}
	golden(t, "corpus-parsed.txt", outcome.String())
}
