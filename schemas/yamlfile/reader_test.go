package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// book is what the tests read: a mapping of every kind of value.
type book struct {
	Reader
	title, kind string
	pages       int64
	tags        []string
	chapters    []string
}

func (b *book) read(text string) error {
	b.File = "b.yaml"
	if doc := b.Document([]byte(text)); doc != nil && !IsNull(doc.Content[0]) {
		b.Keys(doc.Content[0], "a book",
			Into("title", &b.title, b.Text),
			OneOf(&b.Reader, "kind", &b.kind, "novel", "manual", "atlas"),
			Into("pages", &b.pages, b.Whole),
			With("tags", func(n *yaml.Node) {
				for _, n := range b.Texts(n, "tags") {
					b.tags = append(b.tags, n.Value)
				}
			}),
			With("chapters", b.readChapters),
			With("series", func(n *yaml.Node) { b.Unknown(n, "series", []string{"red", "green"}) }),
		)
	}
	return b.Err()
}

func (b *book) readChapters(n *yaml.Node) {
	for _, item := range b.Items(n, "chapters") {
		before := b.Mistakes()
		name := ""
		b.Keys(item, "a chapter", Into("name", &name, b.Text))
		if name == "" && b.Mistakes() == before {
			b.Missing(item, "a chapter", "name")
		}
		b.chapters = append(b.chapters, name)
	}
}

func TestFieldsAreRead(t *testing.T) {
	var b book
	err := b.read("# first\ntitle: &t Wires\nkind: manual\npages: 12\ntags: *t\nchapters:\n  - &c {name: in}\n  - *c\n")
	if err != nil {
		t.Fatal(err)
	}
	if b.title != "Wires" || b.kind != "manual" || b.pages != 12 || !slices.Equal(b.tags, []string{"Wires"}) || !slices.Equal(b.chapters, []string{"in", "in"}) {
		t.Errorf("%+v", b)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "~", "{}", "tags:\n", "tags: []\nchapters: ~"} {
		var b book
		if err := b.read(text); err != nil || b.tags != nil || b.chapters != nil {
			t.Errorf("%q: %v, %+v", text, err, b)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"a list for keys", "- a", "b.yaml:1: a book must be a list of keys and values: title, kind, pages, tags, chapters, series"},
		{"an unknown key", "title: a\ntitel: b", `b.yaml:2: a book has no key "titel"; did you mean "title"?`},
		{"an unknown key, nothing near", "x: b", `b.yaml:1: a book has no key "x"; there are title, kind, pages, tags, chapters, series`},
		{"an unknown key without end", strings.Repeat("x", 1000) + ": b", `b.yaml:1: a book has no key "` + strings.Repeat("x", 80) + `"; there are title, kind, pages, tags, chapters, series`},
		{"a key that is a list", "? [title]\n: b", "b.yaml:1: a book has a list for a key; write a word"},
		{"a key that has keys", "title: a\n? {title: b}\n: c", "b.yaml:2: a book has a list for a key; write a word"},
		{"a key that is an alias", "title: &k kind\n*k : novel", "b.yaml:2: a book has an alias for a key, *k; write the key out"},
		{"keys of another mapping", "<<: {title: a}", `b.yaml:1: a book has no key "<<"; there are title, kind, pages, tags, chapters, series`},
		{"a key twice", "title: a\n\ntitle: b", `b.yaml:3: a book has the key "title" twice; drop one`},
		{"no text", "title:", "b.yaml:1: title must be a text"},
		{"an empty text", "title: ' '", "b.yaml:1: title must be a text"},
		{"a list for a text", "title: [a]", "b.yaml:1: title must be a text"},
		{"a text of two lines", `title: "a\nb"`, "b.yaml:1: title must be one line without control characters"},
		{"a text with an old escape", `title: "a\x9bJ"`, "b.yaml:1: title must be one line without control characters"},
		{"none of the words", "kind: poem", "b.yaml:1: kind must be novel, manual or atlas"},
		{"a list for a word", "kind: [novel]", "b.yaml:1: kind must be novel, manual or atlas"},
		{"less than nothing", "pages: -1", "b.yaml:1: pages must be a whole number from 0 to 2147483647"},
		{"too many", "pages: 2147483648", "b.yaml:1: pages must be a whole number from 0 to 2147483647"},
		{"a fraction", "pages: 1.5", "b.yaml:1: pages must be a whole number from 0 to 2147483647"},
		{"keys for a list", "tags: {a: b}", "b.yaml:1: tags must be a list; each entry begins with a dash"},
		{"one text for a list of keys", "chapters: a", "b.yaml:1: chapters must be a list; each entry begins with a dash"},
		{"a list in a list of texts", "tags: [a, [b]]", "b.yaml:1: tags must be a text"},
		{"a missing key", "chapters:\n  - {name: in}\n  - {}", "b.yaml:3: a chapter has no name; add one"},
		{"a name that is near another", "series: gren", `b.yaml:1: there is no series "gren"; did you mean "green"?`},
		{"a name that is near none", "series: blue", `b.yaml:1: there is no series "blue"; there are red, green`},
		{"a second document", "title: a\n---\ntitle: b", "b.yaml:2: a second YAML document begins here; move its keys into the first"},
		{"a bracket that is not closed", "title: a\ntags: [a\nkind: novel", "b.yaml:2: at or after line 2 this is not YAML: did not find expected ',' or ']'; look for a bracket that is not closed, or a comma that is missing"},
		{"a second document that is none", "title: a\n---\n\tb", "b.yaml:3: at or after line 3 this is not YAML: found character that cannot start any token; indent with blanks, not tabs, and put a text that begins with a special character into quotes"},
		{"all at once, by line", "chapters: a\ntitle:\nkind: x", "b.yaml:1: chapters must be a list; each entry begins with a dash\nb.yaml:2: title must be a text\nb.yaml:3: kind must be novel, manual or atlas"},
	} {
		var b book
		err := b.read(tt.text)
		if _, ok := errors.AsType[*Error](err); !ok || err.Error() != tt.want {
			t.Errorf("%s: error is\n%v\nwant\n%s", tt.rule, err, tt.want)
		}
	}
}

func TestUnknownWhereNothingIsDefined(t *testing.T) {
	r := Reader{File: "b.yaml"}
	r.Unknown(&yaml.Node{Value: "a", Line: 3}, "series", nil)
	r.Unknown(&yaml.Node{Value: "s11x"}, "series", manyNames())
	want := `b.yaml: there is no series "s11x"; did you mean "s11"?` + "\n" + `b.yaml:3: there is no series "a"; none is defined`
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if got := Few(manyNames()); got != "s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, …" {
		t.Errorf("a few are %s", got)
	}
}

func manyNames() (names []string) {
	for i := range 12 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	return names
}

func TestMistakesAreBoundedAndByLine(t *testing.T) {
	r := Reader{File: "b.yaml"}
	if r.Err() != nil {
		t.Error("no mistake is one")
	}
	for i := range 150 {
		r.Wrong(&yaml.Node{Line: 150 - i}, "slip")
	}
	err, ok := errors.AsType[*Error](r.Err())
	if !ok || len(err.Problems) != 101 || err.Problems[0].Line != 1 || err.Problems[99].Line != 100 || err.Problems[100] != (Problem{"b.yaml", 0, "and 50 more mistakes; fix these first"}) {
		t.Errorf("%v", err)
	}
	if r.Mistakes() != 150 {
		t.Errorf("%d mistakes are counted", r.Mistakes())
	}
}

// FuzzReader reads random texts. There is no panic, and mistakes are few, in order, and each has
// a text.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		"title: a\nkind: novel\npages: 1\ntags: [a, b]\nchapters: [{name: c}]\nseries: red\n",
		"tags: &a [*a]\nchapters: *a", "chapters: &x\n  - name: *x", "? [a]\n: b", "\xef\xbb\xbftitle:", "--- !!binary aaaa", "tags: [[[[[[", "<<: {title: 1}", "a: b: c", "title: \"\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b book
		err := b.read(text)
		if err == nil {
			for _, s := range append(b.tags, b.chapters...) {
				if s == "" || strings.ContainsAny(s, "\n\r\x00\x1b") {
					t.Fatalf("%q is accepted as a text", s)
				}
			}
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || len(e.Problems) == 0 || len(e.Problems) > maxProblems+1 {
			t.Fatalf("%v", err)
		}
		for i, p := range e.Problems[:min(len(e.Problems), maxProblems)] {
			if p.Msg == "" || p.Line < 0 || i > 0 && p.Line < e.Problems[i-1].Line {
				t.Fatalf("mistake %d is %+v", i, p)
			}
		}
	})
}
