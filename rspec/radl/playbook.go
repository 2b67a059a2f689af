package radl

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A recipe is a list of plays, nearly always without hosts. Each node runs its own recipes, with
// itself as the only host.

// playKeys are keys that only plays have, not tasks.
var playKeys = []string{"hosts", "tasks", "roles", "pre_tasks", "post_tasks", "handlers", "vars_files", "vars_prompt", "gather_facts"}

// playbookIncludes are the keys of an item that includes a recipe as plays.
var playbookIncludes = []string{"import_playbook", builtin + "import_playbook", "include", builtin + "include"}

// builtin may stand before the names of Ansible's own keys.
const builtin = "ansible.builtin."

// taskLists are the keys of a play that have tasks.
var taskLists = []string{"pre_tasks", "tasks", "post_tasks", "handlers"}

// taskBlocks are the keys of a task that have tasks.
var taskBlocks = []string{"block", "rescue", "always"}

// includes are the keys that include files of tasks, without the prefix ansible.builtin.
var includes = []string{"include", "include_tasks", "import_tasks"}

// edit is a replacement in a text.
type edit struct {
	at, end int
	text    string
}

func apply(text string, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return a.at - b.at })
	var b strings.Builder
	last := 0
	for _, e := range edits {
		b.WriteString(text[last:e.at])
		b.WriteString(e.text)
		last = e.end
	}
	b.WriteString(text[last:])
	return b.String()
}

// source is the text of a recipe with its YAML tree.
type source struct {
	text  string
	lines []int // offsets
	root  *yaml.Node
	// last is the place of the last call of offset, and at its result: the next one is mostly
	// behind it in the same line.
	last Place
	at   int
}

// errNotList reports a recipe that is no list.
var errNotList = errors.New("it is not a list of plays")

func parseSource(text string) (*source, error) {
	s := &source{text: text, lines: []int{0}}
	for i := range text {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document")
	}
	if s.root = doc.Content[0]; s.root.Kind != yaml.SequenceNode {
		return nil, errNotList
	}
	return s, nil
}

// offset returns the offset in the text at which a node begins. ok is false if the node's place is not in the text.
func (s *source) offset(n *yaml.Node) (at int, ok bool) {
	if n.Line < 1 || n.Line > len(s.lines) {
		return 0, false
	}
	if s.last.Line != n.Line || s.last.Column > n.Column {
		s.last, s.at = Place{n.Line, 1}, s.lines[n.Line-1]
	}
	for ; s.last.Column < n.Column; s.last.Column++ { // columns count characters
		if s.at >= len(s.text) {
			return 0, false
		}
		_, size := utf8.DecodeRuneInString(s.text[s.at:])
		s.at += size
	}
	return s.at, true
}

// value returns the value of a key in a mapping; nil if there is none.
func value(n *yaml.Node, keys ...string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if slices.Contains(keys, n.Content[i].Value) {
			return n.Content[i+1]
		}
	}
	return nil
}

// insert returns the edits that add hosts and become to a play where they are missing. ok is false if the text has no
// place for them that can be found.
func (s *source) insert(play *yaml.Node) (edits []edit, ok bool) {
	var missing []string
	if value(play, "hosts") == nil {
		missing = append(missing, "hosts: all")
	}
	if value(play, "become") == nil {
		missing = append(missing, "become: yes")
	}
	if len(missing) == 0 {
		return nil, true
	}
	if play.Style&yaml.FlowStyle != 0 {
		at, ok := s.offset(play)
		if brace := strings.IndexByte(s.text[at:], '{'); ok && brace >= 0 {
			at += brace + 1
			return []edit{{at, at, strings.Join(missing, ", ") + ", "}}, true
		}
		return nil, false
	}
	at, ok := s.offset(play.Content[0])
	indent := "\n" + strings.Repeat(" ", play.Content[0].Column-1)
	return []edit{{at, at, strings.Join(missing, indent) + indent}}, ok
}

// taskLine is a task that includes a file.
type taskLine struct {
	key, file *yaml.Node
	task      *yaml.Node
}

// visitInclusions calls visit for each task in tasks that includes a file, and for the tasks in its
// blocks. Aliases are not followed: their target is visited where it is written.
func visitInclusions(tasks *yaml.Node, visit func(taskLine)) {
	if tasks == nil || tasks.Kind != yaml.SequenceNode {
		return
	}
	for _, task := range tasks.Content {
		if task.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(task.Content); i += 2 {
			key, v := task.Content[i], task.Content[i+1]
			name := strings.TrimPrefix(key.Value, builtin)
			switch {
			case slices.Contains(taskBlocks, name):
				visitInclusions(v, visit)
			case !slices.Contains(includes, name):
			case v.Kind == yaml.ScalarNode:
				visit(taskLine{key, v, task})
			case value(v, "file") != nil:
				visit(taskLine{key, value(v, "file"), task})
			}
		}
	}
}

// marshal writes nodes as YAML.
func marshal(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}
