package radl

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// playbook is a recipe as a playbook, with the files beside it.
type playbook struct {
	body  []byte
	files []generate.File
	// roles are the names of roles in its plays.
	roles []string
}

// groups finds the use of Ansible's groups, which change with the nodes; a parameter groups of a module
// is another thing.
var groups = regexp.MustCompile(`\bgroups\s*(\[|\.)|\bin\s+groups\b|\{\{\s*groups\b|\bIM_\w+_NUM_VMS\b`)

// usesGroups reports whether a playbook must be played again when the slice gets or loses nodes.
func (p *playbook) usesGroups() bool {
	return groups.Match(p.body) || slices.ContainsFunc(p.files, func(f generate.File) bool { return groups.Match(f.Body) })
}

// recipePlace returns the place of a node in the recipe's text.
func (r *Recipe) recipePlace(n *yaml.Node) Place {
	if r.TextLine == 0 || n == nil {
		return r.Place
	}
	return Place{r.TextLine + n.Line - 1, n.Column}
}

// playbook returns a recipe as a playbook, which it compiles once. at is the place in the source that makes the
// recipe run.
func (c *compiler) playbook(r *Recipe, at Place) playbook {
	if p, ok := c.playbooks[r.ID]; ok {
		return p
	}
	c.playbooks[r.ID] = playbook{} // ends inclusions in a circle
	p := playbook{}
	s, err := parseSource(r.Text)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(s.root.Content) == 0:
		return p // no play
	case err != nil:
		remedy := "write a list of plays, each with tasks or roles"
		if errors.Is(err, errNotList) {
			remedy += "; if it is a text for cloud-init, add with cloud_init to its line of contextualize"
		}
		c.refuse(rspec.BadArgs, at, remedy, "recipe %.80q: %v", r.ID, err)
		return p
	}
	var edits []edit
	files := map[string][]byte{}
	for i, play := range s.root.Content {
		if i > 0 && c.lostIndentation(r, s.root.Content[i-1], play) {
			break
		}
		edits = append(edits, c.play(r, s, play, &p, files)...)
	}
	p.body = []byte(apply(s.text, edits))
	if len(edits) > 0 && !sameShape(p.body, s.root) {
		c.refuse(rspec.BadArgs, at, "add hosts: all and become: yes to its plays", "recipe %.80q: its plays have a form that cannot be completed", r.ID)
	}
	for _, name := range sorted(files) {
		p.files = append(p.files, generate.File{Path: name, Body: files[name]})
	}
	c.playbooks[r.ID] = p
	return p
}

// lostIndentation reports whether an item that is no play probably belongs below the play before it, whose list of
// tasks or roles is empty. Then it refuses the item.
func (c *compiler) lostIndentation(r *Recipe, before, item *yaml.Node) bool {
	if value(item, playKeys...) != nil || value(item, playbookIncludes...) != nil {
		return false
	}
	for _, key := range append(slices.Clip(taskLists), "roles") {
		if list := value(before, key); list != nil && list.Kind == yaml.ScalarNode && list.Value == "" {
			c.refuse(rspec.BadArgs, r.recipePlace(item), "write it under "+key+":, with two blanks more before its -", "recipe %.80q has an item that is not indented, so it is not one of the %s of the play before it", r.ID, key)
			return true
		}
	}
	return false
}

// play returns the edits of one item of a recipe: those that add hosts and become, and replace the key include. It adds
// what the item includes to files, and its roles to p.
func (c *compiler) play(r *Recipe, s *source, play *yaml.Node, p *playbook, files map[string][]byte) (edits []edit) {
	switch {
	case value(play, playKeys...) != nil:
	case value(play, playbookIncludes...) != nil:
		return c.includePlaybook(r, s, play, files)
	default:
		c.refuse(rspec.BadArgs, r.recipePlace(play), "write a play, such as: - tasks: […]", "recipe %.80q has an item that is no play", r.ID)
		return nil
	}
	if hosts := value(play, "hosts"); hosts != nil && hosts.Value != "all" && r.TextLine > 0 {
		c.warn(r.recipePlace(hosts), "leave hosts out", "recipe %.80q has hosts, which are kept: the recipe runs on each node for itself only if that is among them", r.ID)
	}
	edits, ok := s.insert(play)
	if !ok {
		c.refuse(rspec.BadArgs, r.recipePlace(play), "add hosts: all and become: yes to it", "recipe %.80q has a play that cannot be completed", r.ID)
	}
	for _, name := range taskLists {
		visitInclusions(value(play, name), func(t taskLine) {
			c.includeTasks(r, t, files)
			if at, ok := s.offset(t.key); ok && bareInclude(t.key) && strings.HasPrefix(s.text[at:], t.key.Value) {
				edits = append(edits, edit{at, at + len(t.key.Value), taskInclude(t.task)})
			}
		})
	}
	if list := value(play, "roles"); list != nil {
		for _, item := range list.Content {
			if name := item; item.Kind == yaml.ScalarNode {
				p.roles = append(p.roles, name.Value)
			} else if name := value(item, "role", "name"); name != nil {
				p.roles = append(p.roles, name.Value)
			}
		}
	}
	return edits
}

// sameShape reports whether a completed recipe has the plays of the original one, each with hosts.
func sameShape(text []byte, root *yaml.Node) bool {
	s, err := parseSource(string(text))
	if err != nil || len(s.root.Content) != len(root.Content) {
		return false
	}
	for i, play := range s.root.Content {
		added := len(play.Content) - len(root.Content[i].Content)
		if added < 0 || added > 4 || value(play, "hosts") == nil && value(play, playKeys...) != nil {
			return false
		}
	}
	return true
}

// secrets are texts that look like secrets. notSecret are texts that have one of these words only in the
// name of a file, of a table, or of a tag in sudoers.
var (
	notSecret  = regexp.MustCompile(`\bNOPASSWD\b|/etc/passwd\b|\bgetent passwd\b`)
	secretText = regexp.MustCompile(`(?i)(?:password|passphrase|(?:^|[^a-z])pass)["']?\s*[=:]|passwd|token|(?:private|secret|api|access)[ _-]?key`)
	secretURL  = regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`)
)

// Words of recipes that mean nothing here: a task that another node than the recipe's own should do, and
// variables of the Infrastructure Manager that are not set.
var (
	delegation  = regexp.MustCompile(`^\s*(?:-\s+)?["']?delegate_to["']?\s*:\s*["']?([^\s"'#]+)`)
	imVariable  = regexp.MustCompile(`\bIM_(?:NODE|MASTER|INFRASTRUCTURE)_\w+`)
	imVariables = regexp.MustCompile(`^IM_(?:(?:NODE|MASTER)_(?:HOSTNAME|DOMAIN|FQDN)|NODE_(?:PRIVATE_IP|PUBLIC_IP|NET_[0-9]+_IP|NUM|VMID|CLOUD_TYPE|CLOUD_SERVER)|INFRASTRUCTURE_(?:ID|RADL)|\w+_NUM_VMS)$`)
)

// warnOfWords warns about a delegation, and about the first unknown variable.
func (c *compiler) warnOfWords(r *Recipe) {
	isDelegated, unknown := false, ""
	line := r.TextLine
	for text := range strings.SplitSeq(r.Text, "\n") {
		if m := delegation.FindStringSubmatch(text); m != nil && !isDelegated && m[1] != "localhost" && m[1] != "127.0.0.1" && !strings.Contains(text, "inventory_hostname") {
			isDelegated = true
			c.warn(Place{line, 1}, "write the task into a recipe of that node", "recipe %.80q has delegate_to, which has no effect: each node does its tasks itself", r.ID)
		}
		for _, name := range imVariable.FindAllString(text, -1) {
			if unknown == "" && !imVariables.MatchString(name) {
				unknown = name
				c.warn(Place{line, 1}, "use one of the variables that the guide radl lists", "recipe %.80q has the variable %.80s, which is not set", r.ID, name)
			}
		}
		line++
	}
}

// checkRecipes refuses recipes of the document that cannot run, and warns about those that run
// nowhere, have secrets, hosts, words without effect, or unknown roles.
func (c *compiler) checkRecipes(d *Document) {
	used := c.usedRecipes()
	for i := range d.Recipes {
		r := &d.Recipes[i]
		if r.IsReference || r.Text == "" {
			continue
		}
		if !used[r.ID] && !c.runsNothing() {
			c.warn(r.Place, "name it in contextualize, or give it the name of a system", "recipe %.80q runs nowhere", r.ID)
		}
		c.warnOfWords(r)
		line := r.TextLine
		for text := range strings.SplitSeq(r.Text, "\n") {
			if what := secretText.FindString(notSecret.ReplaceAllString(text, "")); what != "" {
				c.warn(Place{line, 1}, "fetch secrets from a place that only the node can read", "recipe %.80q has %q: every member of the slice can read recipes", r.ID, what)
				break
			} else if secretURL.MatchString(text) {
				c.warn(Place{line, 1}, "fetch secrets from a place that only the node can read", "recipe %.80q has a URL with a password: every member of the slice can read recipes", r.ID)
				break
			}
			line++
		}
	}
}

// usedRecipes returns the recipes that run on a system, or that such a recipe includes. It compiles
// those that Ansible runs.
func (c *compiler) usedRecipes() map[string]bool {
	used := map[string]bool{}
	for _, id := range sorted(c.systemBlocks) {
		for _, item := range c.linesOf(id) {
			r := c.recipes[item.Recipe]
			used[r.ID] = true
			if item.Tool == CloudInit || r.Text == "" {
				continue
			}
			for _, f := range c.playbook(r, item.Place).files {
				used[strings.TrimSuffix(f.Path, ".yml")] = true
			}
		}
	}
	return used
}

// document returns the parameter with the networks, systems and deploy sentences of the document, if a
// recipe mentions it. Recipes are left out: Ansible would replace the {{…}} in them again.
func (c *compiler) document() []generate.Feature {
	const name = "IM_INFRASTRUCTURE_RADL"
	mentions := func(r *Recipe) bool { return strings.Contains(r.Text, name) }
	if !slices.ContainsFunc(sorted(c.recipes), func(id string) bool { return mentions(c.recipes[id]) }) {
		return nil
	}
	if c.json == "" {
		var tree any
		d := Document{Networks: c.current.Networks, Systems: c.current.Systems, Deploys: c.current.Deploys}
		if err := json.Unmarshal(d.JSON(), &tree); err == nil {
			text, _ := json.Marshal(withUnderscores(tree))
			c.json = string(text)
		}
		if len(c.json) > maxBody {
			c.refuse(rspec.TooBig, Place{Line: 1, Column: 1}, "leave "+name+" out of the recipes", "the document has more than %d bytes, which is too much for the variable %s", maxBody, name)
		}
	}
	return []generate.Feature{{Name: name, Value: c.json}}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// withUnderscores replaces dots in keys by underscores.
func withUnderscores(tree any) any {
	switch x := tree.(type) {
	case []any:
		for i := range x {
			x[i] = withUnderscores(x[i])
		}
	case map[string]any:
		renamed := map[string]any{}
		for key, v := range x {
			renamed[strings.ReplaceAll(key, ".", "_")] = withUnderscores(v)
		}
		return renamed
	}
	return tree
}
