package policy

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/yamlfile"
)

// list reads a list of texts with at least one entry; a single text is a list of one.
// An empty list is a mistake, because its meaning, everything or nothing, is unclear.
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

// text reads a text for experimenters.
func (r *reader) text(n *yaml.Node, what string) string {
	text := r.Text(n, what)
	if len(text) > maxText {
		r.Wrong(n, "%s must have at most %d bytes", what, maxText)
		return ""
	}
	return text
}

// name reads the name of a rule.
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
