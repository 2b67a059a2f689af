package blueprint

import (
	"fmt"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/schemas/yamlfile"
)

// Limits of a source, since aliases make large values of few bytes.
const (
	maxValues = 20_000
	maxDepth  = 40
	maxTexts  = 2 << 20 // bytes of all scalars
	maxHints  = 20
)

// value is a value of the source. Its scalars are texts as written, so that the country no is
// not false.
type value struct {
	line, column int
	kind         yaml.Kind // 0 for null
	text         string
	items        []*value
	fields       []field
}

type field struct {
	name string
	key  *value
	*value
}

// get returns nil if the mapping has no such key.
func (v *value) get(name string) *value {
	for _, f := range v.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// problemList collects problems.
type problemList struct {
	generate.Report
	hints    int
	isTooBig bool
}

// stopped reports whether the compilation must end: the source is too large, or has too many mistakes.
func (p *problemList) stopped() bool { return p.isTooBig || p.IsFull() }

func (p *problemList) wrong(at *value, remedy, format string, args ...any) {
	p.refuse(rspec.BadArgs, at, remedy, format, args...)
}

func (p *problemList) refuse(kind rspec.Kind, at *value, remedy, format string, args ...any) {
	if at == nil {
		at = &value{}
	}
	p.isTooBig = p.isTooBig || kind == rspec.TooBig
	p.Refuse(kind, at.line, at.column, remedy, format, args...)
}

func (p *problemList) warn(at *value, remedy, format string, args ...any) {
	p.refuse(0, at, remedy, format, args...)
}

// unknown is the function unknown for the first maxHints texts, since the search takes time.
func (p *problemList) unknown(text string, words []string) string {
	if p.hints++; p.hints > maxHints {
		return "correct the name"
	}
	return unknown(text, words)
}

// unknown returns a remedy that names a similar word, else some of the words.
func unknown(text string, words []string) string {
	if near := display.Suggest(display.Cut(text, 80), words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + yamlfile.Few(words)
}

// reader makes values of YAML.
type reader struct {
	problemList
	count, bytes int
}

// read returns the value of the YAML node n, which is inside depth others. It returns nil after a mistake.
func (r *reader) read(n *yaml.Node, depth int) *value {
	at := &value{line: n.Line, column: n.Column}
	target := yamlfile.Deref(n)
	r.count++
	if r.bytes += len(target.Value); r.count > maxValues || depth > maxDepth || r.bytes > maxTexts {
		if !r.isTooBig {
			r.refuse(rspec.TooBig, at, "write less, and use fewer aliases", "the blueprint has more than %d values, more than %d inside each other, or more than %d bytes of text", maxValues, maxDepth, maxTexts)
		}
		return nil
	}
	v := &value{line: n.Line, column: n.Column, kind: target.Kind}
	switch target.Kind {
	case yaml.ScalarNode:
		if v.text = target.Value; yamlfile.IsNull(target) {
			v.kind = 0
		}
	case yaml.SequenceNode:
		for _, item := range target.Content[:min(len(target.Content), maxValues)] {
			if i := r.read(item, depth+1); i != nil {
				v.items = append(v.items, i)
			}
		}
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(target.Content) && r.count <= maxValues; i += 2 {
			key := r.read(target.Content[i], depth+1)
			content := r.read(target.Content[i+1], depth+1)
			switch {
			case key == nil || content == nil:
			case key.kind != yaml.ScalarNode || key.text == "" || strings.ContainsFunc(key.text, unicode.IsControl):
				r.wrong(key, "write a word", "a key is no word")
			case seen[key.text] > 0:
				r.wrong(key, "drop one", "the key %.80q is also in line %d", key.text, seen[key.text])
			default:
				seen[key.text] = key.line
				v.fields = append(v.fields, field{key.text, key, content})
			}
		}
	}
	return v
}
