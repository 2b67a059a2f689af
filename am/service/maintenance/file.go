package maintenance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/file"
	"patchbay/inventory/nameset"
	"patchbay/schemas/yamlfile"
)

const header = `What is out of service, by patchbay lockdown, maintenance and drain. You may edit
this file; a running server applies it at once, and patchbay check explains mistakes.`

// Draft is a file that is being edited.
type Draft struct {
	// Plan is the content before the changes.
	Plan *Plan
	top  *yaml.Node // the mapping of the file
}

// lockTimeout limits how long Change waits for others. Any user who may read the folder can lock it.
const lockTimeout = 10 * time.Second

// Change edits a file atomically, or creates it, and returns the new plan. Concurrent calls
// wait for each other; a reader sees the old or the new content. If edit returns an error, or
// if the file is invalid before or after the edit, Change fails and leaves the file unchanged.
func Change(path string, edit func(*Draft) error) (*Plan, error) {
	folder := file.OwnerFolder(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() // closing also unlocks
	switch err := file.Lock(dir, lockTimeout); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, fmt.Errorf("another program holds the lock on %s; find it with lslocks, end it, and try again\nnothing was changed", dir.Name())
	case err != nil:
		return nil, &os.PathError{Op: "lock", Path: dir.Name(), Err: err}
	}
	mode := fs.FileMode(0o644)
	text, err := yamlfile.Load(path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	doc, p, err := parse(text, path)
	if err != nil {
		return nil, fmt.Errorf("%w\ncorrect that first; nothing was changed", err)
	}
	d := &Draft{Plan: p, top: yamlfile.Deref(doc.Content[0])}
	if yamlfile.IsNull(d.top) {
		d.top = &yaml.Node{Kind: yaml.MappingNode, HeadComment: d.top.HeadComment}
		if len(text) == 0 {
			doc.HeadComment = header
		}
		doc.Content[0] = d.top
	}
	if err := edit(d); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(doc), e.Close()); err != nil {
		return nil, err
	}
	if b.Len() > maxFile {
		return nil, fmt.Errorf("%s would be larger than %d MiB; remove entries that have ended first\nnothing was changed", path, maxFile>>20)
	}
	if p, err = Parse(b.Bytes(), path); err != nil {
		return nil, fmt.Errorf("%w\nnothing was changed", err)
	}
	return p, file.AsOwner(folder, func() error { return file.Write(path, b.Bytes(), mode) })
}

// SetLockdown starts a lockdown, or changes it.
func (d *Draft) SetLockdown(l Lockdown) {
	d.set("lockdown", mapping("text", quoted(l.Text), "since", stamp(l.Since)))
}

// LiftLockdown ends the lockdown.
func (d *Draft) LiftLockdown() { d.set("lockdown", nil) }

// Add adds a window.
func (d *Draft) Add(w Window) {
	var fields []any
	if len(w.Components) > 0 {
		fields = append(fields, "components", flow(w.Components))
	}
	d.append("planned", mapping(append(fields, "from", stamp(w.From), "until", stamp(w.Until), "text", quoted(w.Text))...))
}

// Remove removes the windows for which drop returns true.
func (d *Draft) Remove(drop func(*Window) bool) {
	d.filter("planned", func(i int, _ *yaml.Node) bool {
		// Windows that this draft has added are not in Plan: keep them.
		return i >= len(d.Plan.Planned) || !drop(d.Plan.Planned[i])
	})
}

// AddDrain drains components.
func (d *Draft) AddDrain(x Drain) {
	fields := []any{"components", flow(x.Components)}
	if x.Text != "" {
		fields = append(fields, "text", quoted(x.Text))
	}
	d.append("drained", mapping(append(fields, "since", stamp(x.Since), "by", quoted(x.By))...))
}

// Undrain ends the drain of the components with these names; other components stay
// drained.
func (d *Draft) Undrain(names []string) {
	remove := map[string]bool{}
	for _, name := range names {
		remove[name] = true
	}
	d.filter("drained", func(i int, n *yaml.Node) bool {
		if i >= len(d.Plan.Drained) {
			return true
		}
		x := d.Plan.Drained[i]
		var left []string
		for _, name := range x.names {
			if !remove[name] {
				left = append(left, name)
			}
		}
		if len(left) > 0 && len(left) < len(x.names) {
			n = yamlfile.Deref(n)
			n.Content[find(n, "components")+1] = flow(nameset.Fold(left))
		}
		return len(left) > 0
	})
}

func (d *Draft) append(key string, entry *yaml.Node) {
	list := d.list(key)
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode}
		d.set(key, list)
	}
	list.Style = 0
	list.Content = append(list.Content, entry)
}

// filter keeps the entries for which accept returns true. It removes the key if no entry is
// left.
func (d *Draft) filter(key string, accept func(i int, n *yaml.Node) bool) {
	list := d.list(key)
	if list == nil {
		return
	}
	var kept []*yaml.Node
	for i, n := range list.Content {
		if accept(i, n) {
			kept = append(kept, n)
		}
	}
	if list.Content = kept; len(kept) == 0 {
		d.set(key, nil)
	}
}

func (d *Draft) list(key string) *yaml.Node {
	if i := find(d.top, key); i >= 0 {
		if n := yamlfile.Deref(d.top.Content[i+1]); n.Kind == yaml.SequenceNode {
			return n
		}
	}
	return nil
}

// find returns the index of a key in the content of a mapping; -1 if the key is missing.
// The value has the next index.
func find(m *yaml.Node, key string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func flow(items []string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, x := range items {
		list.Content = append(list.Content, scalar(x))
	}
	return list
}

// set removes the key if value is nil.
func (d *Draft) set(key string, value *yaml.Node) {
	c, i := d.top.Content, find(d.top, key)
	switch {
	case i >= 0 && value != nil:
		c[i+1] = value
	case i >= 0:
		// Keep the comment above a removed key: above the first key it is often about the
		// whole file.
		if i+2 < len(c) {
			c[i+2].HeadComment = strings.TrimPrefix(c[i].HeadComment+"\n"+c[i+2].HeadComment, "\n")
		} else {
			d.top.HeadComment += c[i].HeadComment
		}
		d.top.Content = append(c[:i:i], c[i+2:]...)
	case value != nil:
		d.top.Style = 0
		d.top.Content = append(c, scalar(key), value)
	}
}

// mapping returns a YAML mapping. fields has each key, followed by its value.
func mapping(fields ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(fields); i += 2 {
		m.Content = append(m.Content, scalar(fields[i].(string)), fields[i+1].(*yaml.Node))
	}
	return m
}

func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

func quoted(text string) *yaml.Node {
	n := scalar(text)
	n.Style = yaml.DoubleQuotedStyle
	return n
}

func stamp(t time.Time) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!timestamp", Value: t.UTC().Format(time.RFC3339)}
}
