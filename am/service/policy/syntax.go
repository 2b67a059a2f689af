package policy

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

// list reads a list of texts; a single text is a list of one. It refuses an empty list, because
// "everything" and "nothing" are both plausible meanings.
func (r *reader) list(n *yaml.Node, what string) (list []*yaml.Node) {
	before := r.Mistakes()
	items := r.OneOrMore(n, what)
	switch {
	case len(items) > maxPatterns:
		r.Wrong(n, "%s has more than %d entries; use a pattern or a range", what, maxPatterns)
		return nil
	case len(items) == 0 && r.Mistakes() == before:
		r.Wrong(n, "%s is empty; drop the key to allow all", what)
	}
	for _, item := range items {
		if item = yamlfile.Deref(item); r.text(item, what) != "" {
			list = append(list, item)
		}
	}
	return list
}

func (r *reader) text(n *yaml.Node, what string) string {
	text := r.Text(n, what)
	if len(text) > maxText {
		r.Wrong(n, "%s must have at most %d bytes", what, maxText)
		return ""
	}
	return text
}

func (r *reader) name(n *yaml.Node) string {
	name := r.text(n, "name")
	if name != "" && (!isPlain(name) || strings.ContainsAny(name, `"\`)) {
		r.Wrong(n, "the name %q must be one word of plain letters, digits and hyphens", name)
		return ""
	}
	return name
}

// isPlain reports whether s is ASCII without blanks.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}
