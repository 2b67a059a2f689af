package lxd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"patchbay/am/file"
	"patchbay/inventory"
	"patchbay/inventory/nameset"
	"patchbay/schemas/yamlfile"
)

//go:embed inventory.yaml
var inventoryText string

// InventoryOptions are what UpdateInventory changes.
type InventoryOptions struct {
	// Site is the folder of the site, and Name the name of the provider.
	Site, Name string
	// Replace writes a new inventory with this provider only.
	Replace bool
	// Progress is called with each change.
	Progress func(format string, args ...any)
}

// UpdateInventory adds a component to the site's inventory.yaml for each member of the cluster that
// has none. It changes no component that is there, and reports those that no longer have a member.
func UpdateInventory(ctx context.Context, o InventoryOptions) error {
	p, err := open(filepath.Join(o.Site, "providers"), o.Name)
	if err != nil {
		return err
	}
	members, clustered, err := p.client.members(ctx)
	if err != nil {
		return err
	}
	if err := p.updateFacts(ctx); err != nil {
		o.Progress("warning: the facts about images (%s) cannot be updated: %v", p.folder.name+inventory.FactsSuffix, err)
	}
	path := filepath.Join(o.Site, inventoryFile)
	old, err := yamlfile.Load(path, maxInventory)
	if err != nil && !(o.Replace && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	text := old
	if o.Replace {
		if text, err = p.newInventory(); err != nil {
			return err
		}
	}
	have, err := readComponents(text, o.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	missing := slices.DeleteFunc(slices.Clone(members), func(m member) bool { return have.has(m.Name) })
	entries, err := p.componentsOf(ctx, missing, clustered, o.Progress)
	if err != nil {
		return err
	}
	for _, name := range have.names {
		if !slices.ContainsFunc(members, func(m member) bool { return m.Name == name }) {
			o.Progress("%s is not a member of the cluster; remove it from %s when its slivers are gone", name, path)
		}
	}
	if text = have.insert(text, entries); bytes.Equal(text, old) {
		o.Progress("%s has all members", path)
		return nil
	}
	if now, err := readComponents(text, o.Name); err != nil || len(now.names) != len(have.names)+len(entries) {
		return fmt.Errorf("the list of components in %s cannot be extended; add these lines to it:\n%s", path, strings.Join(entries, ""))
	}
	if o.Replace && len(old) > 0 {
		if err := file.Write(path+".old", old, 0o644); err != nil {
			return err
		}
		o.Progress("the former inventory is %s.old", path)
	}
	return file.Write(path, text, 0o644)
}

const (
	inventoryFile = "inventory.yaml"
	maxInventory  = 64 << 20 // bytes
)

// newInventory returns an inventory without components, and with all else that the settings have.
func (p *program) newInventory() ([]byte, error) {
	var b bytes.Buffer
	t, err := template.New(inventoryFile).Delims("[[", "]]").Parse(inventoryText)
	if err != nil {
		return nil, err
	}
	err = t.Execute(&b, map[string]any{"Name": p.folder.name, "Images": p.Images, "SliverTypes": p.SliverTypes})
	return b.Bytes(), err
}

// Most nodes use little of their limits, so a component offers more than its member has: slotsPerCPU
// nodes for each processor, and overcommit times the memory and the space of the pool.
const (
	slotsPerCPU = 50
	overcommit  = 4
)

// componentsOf returns the entries of the members that are online, and reports each member.
func (p *program) componentsOf(ctx context.Context, members []member, clustered bool, progress func(format string, args ...any)) (entries []string, err error) {
	for _, m := range members {
		if !m.isOnline() {
			progress("%s is %s, so its size is unknown; it is not added", m.Name, m.Status)
			continue
		}
		entry, err := p.component(ctx, m, clustered)
		if err != nil {
			return nil, fmt.Errorf("the member %s: %w", m.Name, err)
		}
		entries = append(entries, entry)
		progress("added %s", m.Name)
	}
	return entries, nil
}

// component returns the entry of a member.
func (p *program) component(ctx context.Context, m member, clustered bool) (string, error) {
	r, err := p.client.resources(ctx, m, clustered)
	if err != nil {
		return "", err
	}
	disk, err := p.client.poolSpace(ctx, p.Pool, m, clustered)
	if err != nil {
		return "", err
	}
	var types []string
	for _, t := range p.SliverTypes {
		types = append(types, fmt.Sprintf("%q", t.Name))
	}
	return fmt.Sprintf("- name: %s\n  provider: %s\n  exclusive: false\n  sliver_types: [%s]\n  capacity: {slots: %d, memory: %dM, disk: %dM}\n",
		m.Name, p.folder.name, strings.Join(types, ", "), slotsPerCPU*max(r.CPU.Total, 1), overcommit*r.Memory.Total>>20, overcommit*disk.Total>>20), nil
}

// target returns the query of a request that a member of a cluster must answer.
func target(m member, clustered bool) url.Values {
	if !clustered {
		return nil
	}
	return url.Values{"target": {m.Name}}
}

// space is in bytes.
type space struct {
	Total int64 `json:"total"`
	Used  int64 `json:"used"`
}

type resources struct {
	CPU struct {
		Total int `json:"total"`
	} `json:"cpu"`
	Memory space `json:"memory"`
}

// resources returns what the member has.
func (c *client) resources(ctx context.Context, m member, clustered bool) (r resources, err error) {
	err = c.get(ctx, "resources", target(m, clustered), &r)
	return r, err
}

// poolSpace returns the space of the storage pool on the member.
func (c *client) poolSpace(ctx context.Context, pool string, m member, clustered bool) (space, error) {
	var r struct {
		Space space `json:"space"`
	}
	err := c.get(ctx, "storage-pools/"+pool+"/resources", target(m, clustered), &r)
	return r.Space, err
}

// components are the components of one provider in an inventory.
type components struct {
	names  []string
	line   int    // the last line of the list, from 1; 0 without a list
	indent string // of its entries
}

func (c *components) has(name string) bool { return slices.Contains(c.names, name) }

// readComponents finds the provider's components. The server and patchbay check report mistakes in
// the file, so mistakes that do not matter here are ignored.
func readComponents(text []byte, name string) (c components, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return c, err
	}
	var whole struct {
		Provider   string
		Components []struct {
			Name, Provider string
			Names          yaml.Node
		}
	}
	c.indent = "  "
	if err := doc.Decode(&whole); err != nil {
		return c, err
	}
	for _, entry := range whole.Components {
		if entry.Provider == "" {
			entry.Provider = whole.Provider
		}
		if entry.Provider != name {
			continue
		}
		ranges := []string{entry.Name}
		if entry.Name == "" {
			ranges = []string{entry.Names.Value}
			for _, n := range entry.Names.Content {
				ranges = append(ranges, n.Value)
			}
		}
		for _, written := range ranges {
			if r, ok := nameset.Parse(written); ok && r.Len() <= maxRange {
				c.names = slices.AppendSeq(c.names, r.Names())
			} else if written != "" {
				c.names = append(c.names, written)
			}
		}
	}
	if top := yamlfile.Deref(&doc); top.Kind == yaml.DocumentNode && len(top.Content) > 0 {
		fields := top.Content[0].Content
		for k := 0; k+1 < len(fields); k += 2 {
			if fields[k].Value == "components" {
				c.line = max(fields[k].Line, lastLine(fields[k+1]))
				if list := fields[k+1].Content; len(list) > 0 {
					c.indent = strings.Repeat(" ", max(list[0].Column-3, 0)) // "- " precedes an entry's first key
				}
			}
		}
	}
	return c, nil
}

// maxRange is more than the members of any cluster.
const maxRange = 10_000

func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, child := range n.Content {
		last = max(last, lastLine(child))
	}
	return last
}

// insert adds the entries at the end of the list of components.
func (c *components) insert(text []byte, entries []string) []byte {
	if len(entries) == 0 {
		return text
	}
	lines := slices.Collect(bytes.Lines(text))
	at := c.line
	added := c.indent + strings.ReplaceAll(strings.TrimSuffix(strings.Join(entries, ""), "\n"), "\n", "\n"+c.indent) + "\n"
	if at == 0 {
		at, added = len(lines), "components:\n"+added
	}
	if at == len(lines) && at > 0 && !bytes.HasSuffix(lines[at-1], []byte("\n")) {
		added = "\n" + added
	}
	return bytes.Join([][]byte{bytes.Join(lines[:at], nil), []byte(added), bytes.Join(lines[at:], nil)}, nil)
}
