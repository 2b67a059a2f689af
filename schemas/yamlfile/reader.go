package yamlfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
)

// Reader walks through a parsed file and collects every mistake with its line.
type Reader struct {
	// File is the name of the file in messages.
	File     string
	problems []Problem
}

// Wrong records a mistake at the line of n; nil stands for the whole file.
func (r *Reader) Wrong(n *yaml.Node, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	r.problems = append(r.problems, Problem{r.File, line, fmt.Sprintf(format, args...)})
}

// Mistakes returns the number of mistakes so far. A value is not valid if this number
// increased while the value was read.
func (r *Reader) Mistakes() int { return len(r.problems) }

// Missing records that the entry n lacks a required key; label is the entry's name in the
// message.
func (r *Reader) Missing(n *yaml.Node, label, key string) {
	r.Wrong(n, "%s has no %s; add one", label, key)
}

// Unknown records that the value of n is not one of the names. label is the kind of thing
// that has these names. The message suggests a similar name from the first thousand names.
func (r *Reader) Unknown(n *yaml.Node, label string, names []string) {
	const searched = 1000
	if len(names) == 0 {
		r.Wrong(n, "there is no %s %.80q; none is defined", label, n.Value)
		return
	}
	r.suggest(n, "there is no "+label, names[:min(len(names), searched)], Few(names))
}

// suggest records that the value of n is unknown. The message names the most similar of the
// names, or else the text list, which has all names.
func (r *Reader) suggest(n *yaml.Node, problem string, names []string, list string) {
	remedy := "there are " + list
	if near := display.Suggest(n.Value, names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	r.Wrong(n, "%s %.80q; %s", problem, n.Value, remedy)
}

// Fields calls f for each key of the mapping n, with its value. keys are the allowed keys,
// and label names the mapping in messages. A key that is unknown, duplicate or not plain text
// is a mistake; Fields does not call f for such a key.
func (r *Reader) Fields(n *yaml.Node, label string, keys []string, f func(key string, value *yaml.Node)) {
	n = Deref(n)
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, "%s must be a list of keys and values: %s", label, strings.Join(keys, ", "))
		return
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], Deref(n.Content[i+1])
		switch {
		case !r.Key(k, label):
		case !slices.Contains(keys, k.Value):
			r.suggest(k, label+" has no key", keys, strings.Join(keys, ", "))
		case slices.Contains(seen, k.Value):
			r.Wrong(k, "%s has the key %q twice; drop one", label, k.Value)
		default:
			seen = append(seen, k.Value)
			f(k.Value, value)
		}
	}
}

// Key is a key of a mapping, with the function that reads its value.
type Key struct {
	name string
	read func(n *yaml.Node)
}

// With returns a Key whose value read reads.
func With(name string, read func(n *yaml.Node)) Key { return Key{name, read} }

// Into returns a Key whose value read returns for *to. The label in messages is the name.
func Into[T any](name string, to *T, read func(n *yaml.Node, label string) T) Key {
	return Key{name, func(n *yaml.Node) { *to = read(n, name) }}
}

// OneOf returns a Key whose value is one of the words; see Choice.
func OneOf[T ~string](r *Reader, name string, to *T, words ...T) Key {
	return Key{name, func(n *yaml.Node) { *to = Choice(r, n, name, words...) }}
}

// Keys reads the mapping n as Fields does, each value by its Key.
func (r *Reader) Keys(n *yaml.Node, label string, keys ...Key) {
	var names []string
	read := map[string]func(*yaml.Node){}
	for _, k := range keys {
		names, read[k.name] = append(names, k.name), k.read
	}
	r.Fields(n, label, names, func(name string, value *yaml.Node) { read[name](value) })
}

// Key reports whether the key k is plain text. Any other key is a mistake, because operators
// search their files for the names of keys. label is the mapping's name in the message.
func (r *Reader) Key(k *yaml.Node, label string) bool {
	switch k.Kind {
	case yaml.ScalarNode:
		return true
	case yaml.AliasNode:
		r.Wrong(k, "%s has an alias for a key, *%.80s; write the key out", label, k.Value)
	default:
		r.Wrong(k, "%s has a list for a key; write a word", label)
	}
	return false
}

// Items returns the entries of a list. It does not resolve entries that are aliases. A
// missing value is an empty list; any other value is a mistake.
func (r *Reader) Items(n *yaml.Node, label string) []*yaml.Node {
	n = Deref(n)
	if IsNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.Wrong(n, "%s must be a list; each entry begins with a dash", label)
		return nil
	}
	return n.Content
}

// OneOrMore is Items, but accepts a single scalar as a list of one.
func (r *Reader) OneOrMore(n *yaml.Node, label string) []*yaml.Node {
	if n = Deref(n); n.Kind == yaml.ScalarNode && !IsNull(n) {
		return []*yaml.Node{n}
	}
	return r.Items(n, label)
}

// Texts reads a list of texts and returns the valid ones as nodes. A single text is a list of
// one. An entry that is not a text is a mistake.
func (r *Reader) Texts(n *yaml.Node, label string) []*yaml.Node {
	var list []*yaml.Node
	for _, item := range r.OneOrMore(n, label) {
		if item = Deref(item); r.Text(item, label) != "" {
			list = append(list, item)
		}
	}
	return list
}

// Text returns the text of n, one line, as written. If n is empty, no scalar, or has control
// characters, Text records a mistake and returns "".
func (r *Reader) Text(n *yaml.Node, label string) string {
	n = Deref(n)
	switch {
	case n.Kind != yaml.ScalarNode || IsNull(n) || strings.TrimSpace(n.Value) == "":
		r.Wrong(n, "%s must be a text", label)
	case strings.ContainsFunc(n.Value, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }):
		r.Wrong(n, "%s must be one line without control characters", label)
	default:
		return n.Value
	}
	return ""
}

// Whole reads a whole number from 0 to 2147483647.
func (r *Reader) Whole(n *yaml.Node, label string) int64 {
	n = Deref(n)
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || i < 0 || i > math.MaxInt32 {
		r.Wrong(n, "%s must be a whole number from 0 to %d", label, math.MaxInt32)
		return 0
	}
	return i
}

// Size returns an amount of memory or disk in MiB. It reads a number of MiB, or a number
// with the unit M, G or T.
func (r *Reader) Size(n *yaml.Node, label string) int64 {
	digits, unit := n.Value, int64(1)
	if i := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
		switch strings.TrimSuffix(strings.TrimSpace(digits[i:]), "iB") {
		case "M":
		case "G":
			unit = 1 << 10
		case "T":
			unit = 1 << 20
		default:
			unit = 0
		}
		digits = digits[:i]
	}
	i, err := strconv.ParseInt(digits, 10, 64)
	if n.Kind != yaml.ScalarNode || unit == 0 || err != nil || i > math.MaxInt32 {
		r.Wrong(n, "%s must be a size such as 512M, 4G or 1T; a bare number is MiB", label)
		return 0
	}
	return i * unit
}

// Choice reads one of at least two words. For any other value it records a mistake and
// returns the first word.
func Choice[T ~string](r *Reader, n *yaml.Node, label string, words ...T) T {
	if n = Deref(n); n.Kind == yaml.ScalarNode && slices.Contains(words, T(n.Value)) {
		return T(n.Value)
	}
	last := len(words) - 1
	var others []string
	for _, w := range words[:last] {
		others = append(others, string(w))
	}
	r.Wrong(n, "%s must be %s or %s", label, strings.Join(others, ", "), words[last])
	return words[0]
}

// Few returns a text with at most ten of the names.
func Few(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 10:
		return strings.Join(names[:10], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// IsNull reports whether a value is missing.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Value returns the text of n for a message: a shortened scalar, {…} or […].
func Value(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "{…}"
	case yaml.SequenceNode:
		return "[…]"
	}
	return fmt.Sprintf("%.40s", n.Value)
}

// Deref returns the target of an alias, or n itself.
func Deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
