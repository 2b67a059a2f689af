package inventory

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/nearest"
)

// reader walks a parsed YAML file and collects every mistake with its line. A
// value that is wrong reads as zero, so that the walk can go on.
type reader struct {
	file     string
	problems []Problem
}

func (r *reader) wrong(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, n.Line, fmt.Sprintf(format, args...)})
}

// maxProblems keeps a slip that is repeated, such as in a long range, readable.
const maxProblems = 100

// sorted are the mistakes by line, and how many more there are.
func (r *reader) sorted() []Problem {
	all := r.problems
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems:maxProblems], Problem{r.file, 0, fmt.Sprintf("and %d more mistakes; mend these first", more)})
	}
	return all
}

// fields calls f for each key of a mapping. Keys that are not among keys, and
// those that come twice, are mistakes.
func (r *reader) fields(n *yaml.Node, what string, keys []string, f func(key string, value *yaml.Node)) {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "%s must be a list of keys and values: %s", what, strings.Join(keys, ", "))
		return
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], deref(n.Content[i+1])
		switch {
		case !slices.Contains(keys, k.Value):
			if near := nearest.Word(k.Value, keys); near != "" {
				r.wrong(k, "%s has no key %q; did you mean %q?", what, k.Value, near)
			} else {
				r.wrong(k, "%s has no key %q; there are %s", what, k.Value, strings.Join(keys, ", "))
			}
		case slices.Contains(seen, k.Value):
			r.wrong(k, "%s has the key %q twice; drop one", what, k.Value)
		default:
			seen = append(seen, k.Value)
			f(k.Value, value)
		}
	}
}

// items are the entries of a list; nothing at all is an empty list.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	n = deref(n)
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "%s must be a list", what)
		return nil
	}
	return n.Content
}

// texts is a list of texts; a single text is a list of one.
func (r *reader) texts(n *yaml.Node, what string) []*yaml.Node {
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}, Line: n.Line}
	}
	var list []*yaml.Node
	for _, item := range r.items(n, what) {
		if item = deref(item); r.text(item, what) != "" {
			list = append(list, item)
		}
	}
	return list
}

// text is a scalar as it is written, never empty unless it is a mistake.
func (r *reader) text(n *yaml.Node, what string) string {
	n = deref(n)
	if n.Kind != yaml.ScalarNode || isNull(n) || n.Value == "" {
		r.wrong(n, "%s must be a text", what)
		return ""
	}
	for i := 0; i < len(n.Value); i++ {
		if n.Value[i] < ' ' || n.Value[i] == 0x7f {
			r.wrong(n, "%s must be one line without control characters", what)
			return ""
		}
	}
	return n.Value
}

// name is a text that requests refer to: it has no blanks.
func (r *reader) name(n *yaml.Node, what string) string {
	t := r.text(n, what)
	if words := strings.Fields(t); len(words) > 1 || len(words) == 1 && words[0] != t {
		r.wrong(deref(n), "%s %q must not have blanks; write %q", what, t, strings.Join(words, "-"))
		return ""
	}
	return t
}

// names is a list of names; a single one is a list of one.
func (r *reader) names(n *yaml.Node, what string) []*yaml.Node {
	return slices.DeleteFunc(r.texts(n, what), func(n *yaml.Node) bool { return r.name(n, what) == "" })
}

func (r *reader) flag(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		r.wrong(n, "%s must be true or false", what)
		return false
	}
	return n.Value == "true"
}

// choice reads one of the words of a policy; what is none of them reads as the
// first.
func (r *reader) choice(n *yaml.Node, what string, words ...Choice) Choice {
	if n.Kind == yaml.ScalarNode && slices.Contains(words, Choice(n.Value)) {
		return Choice(n.Value)
	}
	last := len(words) - 1
	var others []string
	for _, w := range words[:last] {
		others = append(others, string(w))
	}
	r.wrong(n, "%s must be %s or %s", what, strings.Join(others, ", "), words[last])
	return words[0]
}

func (r *reader) whole(n *yaml.Node, what string) int64 {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || i < 0 || i > math.MaxInt32 {
		r.wrong(n, "%s must be a whole number from 0 to %d", what, math.MaxInt32)
		return 0
	}
	return i
}

// size reads an amount of memory or disk: MiB, or a number with M, G or T.
func (r *reader) size(n *yaml.Node, what string) int64 {
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
		r.wrong(n, "%s must be a size such as 512M, 4G or 1T; a bare number is MiB", what)
		return 0
	}
	return i * unit
}

// missing reports an entry without a key that it needs.
func (r *reader) missing(n *yaml.Node, what, key string) {
	r.wrong(n, "%s has no %s; add one", what, key)
}

// unknown reports a name that nothing in the file has.
func (r *reader) unknown(n *yaml.Node, what string, have []string) {
	switch near := nearest.Word(n.Value, have); {
	case near != "":
		r.wrong(n, "there is no %s %q; did you mean %q?", what, n.Value, near)
	case len(have) == 0:
		r.wrong(n, "there is no %s %q; the file defines none", what, n.Value)
	default:
		r.wrong(n, "there is no %s %q; there are %s", what, n.Value, few(have))
	}
}

// few lists at most ten names.
func few(names []string) string {
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
