package schemas_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/am/testkit/require"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// document is one text to validate.
type document struct {
	name string
	text []byte
	kind schemas.Kind // the kind to validate it as
	// extension means that a mutant was changed inside an extension, so that only
	// schemas with extensions validate it.
	extension bool
}

// verdict is the result of a validation.
type verdict struct {
	valid bool
	found []remark
}

// remark is one finding of xmllint: the line is that of the start tag's end.
type remark struct {
	line         int
	element, msg string
}

// xmllint starts a process that validates documents by a schema file. The returned function waits for
// the verdicts.
func xmllint(t *testing.T, schema string, docs []document) func() []verdict {
	t.Helper()
	tool := require.Tool(t, "xmllint")
	dir := quickDir(t)
	args := []string{"--nonet", "--noout", "--schema", schema}
	for i, d := range docs {
		name := strconv.Itoa(i)
		if err := os.WriteFile(filepath.Join(dir, name), d.text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() []verdict {
		t.Helper()
		_ = cmd.Wait() // it fails when one document is invalid
		return readVerdicts(t, out.String(), docs)
	}
}

func readVerdicts(t *testing.T, out string, docs []document) []verdict {
	t.Helper()
	verdicts := make([]verdict, len(docs))
	judged := 0
	remarks := regexp.MustCompile(`^(\d+):(\d+): element ([^:]*(?::[^: ]+)?): Schemas validity error : (.*)$`)
	verdictLine := regexp.MustCompile(`^(\d+) (validates|fails to validate)$`)
	for line := range strings.SplitSeq(out, "\n") {
		if m := verdictLine.FindStringSubmatch(line); m != nil {
			i, _ := strconv.Atoi(m[1])
			verdicts[i].valid = m[2] == "validates"
			judged++
		} else if m := remarks.FindStringSubmatch(line); m != nil {
			i, _ := strconv.Atoi(m[1])
			at, _ := strconv.Atoi(m[2])
			verdicts[i].found = append(verdicts[i].found, remark{at, m[3], m[4]})
		} else if strings.Contains(line, "parser error") || strings.Contains(line, "WXS schema") {
			t.Fatalf("xmllint: %s", line)
		}
	}
	if judged != len(docs) {
		t.Fatalf("xmllint judged %d of %d documents: %.2000s", judged, len(docs), out)
	}
	for i, v := range verdicts {
		if v.valid != (len(v.found) == 0) {
			t.Fatalf("%s: xmllint says valid = %v with %d findings", docs[i].name, v.valid, len(v.found))
		}
	}
	return verdicts
}

// quickDir is a folder for thousands of files, in memory if possible.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "patchbay")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tree is a document with what our schema finds in it.
type tree struct {
	root  *xmltree.Element
	all   []*xmltree.Element // in document order
	ends  []int              // the line of the end of each start tag
	found []xmltree.Finding
}

// ours validates documents by one of our schemas.
func ours(t *testing.T, schema func(schemas.Kind) *xmltree.Schema, docs []document) []tree {
	t.Helper()
	trees := make([]tree, len(docs))
	for i, d := range docs {
		err := xmltree.Parse(d.text, xmltree.Limits{}, func(doc *xmltree.Doc) error {
			trees[i].root = doc.Root
			trees[i].found = doc.Validate(schema(d.kind))
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		trees[i].walk(trees[i].root)
		trees[i].measure(d.text)
	}
	return trees
}

func (t *tree) walk(e *xmltree.Element) {
	t.all = append(t.all, e)
	for _, c := range e.Elements() {
		t.walk(c)
	}
}

// measure finds the end of each start tag.
func (t *tree) measure(text []byte) {
	at, line := 0, 1 // the offset of the line's beginning, and its number
	for _, e := range t.all {
		for ; line < e.Line; line++ {
			at += bytes.IndexByte(text[at:], '\n') + 1
		}
		i := at
		for column := 1; column < e.Column; column++ {
			_, n := utf8.DecodeRune(text[i:])
			i += n
		}
		end, quote := line, byte(0)
		for ; quote != 0 || text[i] != '>'; i++ {
			switch c := text[i]; {
			case c == '\n':
				end++
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case c == quote:
				quote = 0
			}
		}
		t.ends = append(t.ends, end)
	}
}

// element is the element of a finding: the last one that begins at or before its position.
func (t *tree) element(f xmltree.Finding) *xmltree.Element {
	var last *xmltree.Element
	for _, e := range t.all {
		if e.Line > f.Line || e.Line == f.Line && e.Column > f.Column {
			break
		}
		last = e
	}
	return last
}

// meant are the elements that an error of xmllint may mean.
func (t *tree) meant(r remark) []*xmltree.Element {
	var all []*xmltree.Element
	for i, e := range t.all {
		if e.Local == r.element && t.ends[i] == r.line {
			all = append(all, e)
		}
	}
	return all
}

// told reports whether we have a finding in one of the elements.
func (t *tree) told(elements []*xmltree.Element) bool {
	return slices.ContainsFunc(t.found, func(f xmltree.Finding) bool { return slices.Contains(elements, t.element(f)) })
}

func (r remark) String() string { return fmt.Sprintf("line %d, %s: %.300s", r.line, r.element, r.msg) }
