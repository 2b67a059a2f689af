package maintenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

// Read reads a file; a missing file is an empty plan. It fails with an error of the file
// system, or with a *yamlfile.Error.
func Read(file string) (*Plan, error) {
	text, err := yamlfile.Load(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &Plan{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the maintenance file: %w", err)
	}
	return Parse(text, file)
}

// Parse reads the text of a file. The error is a *yamlfile.Error with all mistakes.
func Parse(text []byte, file string) (*Plan, error) {
	_, p, err := parse(text, file)
	return p, err
}

// parse does what Parse does, and also returns the YAML document, for editing.
func parse(text []byte, file string) (*yaml.Node, *Plan, error) {
	r := &reader{Reader: yamlfile.Reader{File: file}}
	sum := sha256.Sum256(text)
	p := &Plan{Fingerprint: hex.EncodeToString(sum[:])}
	doc := r.Document(text)
	if doc != nil && !yamlfile.IsNull(doc.Content[0]) {
		r.plan(doc.Content[0], p)
	}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	p.buildIndexes()
	return doc, p, nil
}

// reader counts the names of all entries, because their number is limited.
type reader struct {
	yamlfile.Reader
	names int // the number of component names in all entries
}

func (r *reader) plan(n *yaml.Node, p *Plan) {
	r.Fields(n, "the file", []string{"lockdown", "planned", "drained"}, func(key string, n *yaml.Node) {
		switch key {
		case "lockdown":
			p.Lockdown = r.lockdown(n)
		case "planned":
			for _, item := range r.entries(n, key, "{components, from, until, text}") {
				p.Planned = append(p.Planned, r.window(item))
			}
		case "drained":
			for _, item := range r.entries(n, key, "{components, text, since, by}") {
				p.Drained = append(p.Drained, r.drain(item))
			}
		}
	})
}

// entries uses the parameter fields only as the description of an entry in a message.
func (r *reader) entries(n *yaml.Node, key, fields string) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode && !yamlfile.IsNull(n):
		r.Wrong(n, "%s must be a list of %s", key, fields)
		return nil
	case len(n.Content) > maxWindows:
		r.Wrong(n, "%s has %d entries; the limit is %d, so remove those that have ended", key, len(n.Content), maxWindows)
		return nil
	}
	return n.Content
}

func (r *reader) lockdown(n *yaml.Node) *Lockdown {
	l := &Lockdown{}
	if yamlfile.IsNull(n) { // the operator may have meant a lockdown
		r.Wrong(n, "lockdown has no text; give it one, or remove the line")
		return l
	}
	hasText := false
	r.Fields(n, "lockdown", []string{"text", "since"}, func(key string, n *yaml.Node) {
		switch key {
		case "text":
			l.Text, hasText = r.text(n), true
		case "since":
			l.Since = r.time(n, key)
		}
	})
	if !hasText && n.Kind == yaml.MappingNode {
		r.Wrong(n, "lockdown has no text; add one that experimenters can read")
	}
	return l
}

func (r *reader) window(n *yaml.Node) *Window {
	n = yamlfile.Deref(n)
	w := &Window{Line: n.Line}
	given := map[string]bool{}
	bad := r.Mistakes()
	r.Fields(n, "planned maintenance", []string{"components", "from", "until", "text"}, func(key string, n *yaml.Node) {
		given[key] = true
		switch key {
		case "components":
			w.Components, w.names = r.components(n)
		case "from":
			w.From = r.time(n, key)
		case "until":
			w.Until = r.time(n, key)
		case "text":
			w.Text = r.text(n)
		}
	})
	if r.Mistakes() > bad {
		return w
	}
	for _, key := range []string{"from", "until", "text"} {
		if !given[key] {
			r.Missing(n, "planned maintenance", key)
		}
	}
	if given["from"] && given["until"] && !w.Until.After(w.From) {
		r.Wrong(n, "planned maintenance ends at %s, which is not after its beginning, %s", w.Until.Format(time.RFC3339), w.From.Format(time.RFC3339))
	}
	return w
}

func (r *reader) drain(n *yaml.Node) *Drain {
	n = yamlfile.Deref(n)
	d := &Drain{Line: n.Line}
	named := false
	r.Fields(n, "an entry of drained", []string{"components", "text", "since", "by"}, func(key string, n *yaml.Node) {
		switch key {
		case "components":
			d.Components, d.names = r.components(n)
			named = true
		case "text":
			d.Text = r.text(n)
		case "since":
			d.Since = r.time(n, key)
		case "by":
			if d.By = n.Value; n.Kind != yaml.ScalarNode || !isName(n.Value) {
				r.Wrong(n, "by must be the name of an operator, in one line")
			}
		}
	})
	if !named && n.Kind == yaml.MappingNode {
		r.Wrong(n, "an entry of drained has no components; to stop new work at the whole site, use lockdown")
	}
	return d
}

// components returns the entries as they are written, and the single names that the entries
// stand for.
func (r *reader) components(n *yaml.Node) (written, names []string) {
	var list []*yaml.Node
	if n.Kind != yaml.MappingNode {
		list = r.OneOrMore(n, "components")
	}
	if len(list) == 0 {
		r.Wrong(n, "components must be a list of names such as [pc1..pc4]; leave it out for the whole site")
		return nil, nil
	}
	for _, item := range list {
		item = yamlfile.Deref(item)
		if item.Kind != yaml.ScalarNode || yamlfile.IsNull(item) {
			r.Wrong(item, "components must be names such as pc1, or ranges such as pc1..pc4")
			return nil, nil
		}
		more, err := Spread(item.Value, maxNames-r.names)
		if err != nil {
			r.Wrong(item, "%v", err)
			return nil, nil
		}
		r.names += len(more)
		names, written = append(names, more...), append(written, item.Value)
	}
	return written, names
}

func (r *reader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || yamlfile.IsNull(n) {
		r.Wrong(n, "text must be a text")
		return ""
	}
	if err := CheckText(n.Value); err != nil {
		r.Wrong(n, "%v", err)
	}
	return n.Value
}

const firstYear, lastYear = 1990, 9999

func (r *reader) time(n *yaml.Node, key string) time.Time {
	t, err := time.Parse(time.RFC3339, n.Value)
	if t = t.UTC().Truncate(time.Second); n.Kind != yaml.ScalarNode || err != nil || t.Year() < firstYear || t.Year() > lastYear {
		r.Wrong(n, "%s must be a time such as 2030-01-31T12:00:00Z, with its zone", key)
		return time.Time{}
	}
	return t
}
