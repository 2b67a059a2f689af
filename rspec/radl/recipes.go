package radl

import (
	"bytes"
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

// recipePlace returns the place of a node in the recipe's text.
func (r *Recipe) recipePlace(n *yaml.Node) Place {
	if r.TextLine == 0 || n == nil {
		return r.Place
	}
	return Place{r.TextLine + n.Line - 1, n.Column}
}

// playbook returns a recipe as a playbook; at is where the source lets it run.
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
	for _, play := range s.root.Content {
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

// play returns the edits of one item of a recipe, and adds what it includes to files.
func (c *compiler) play(r *Recipe, s *source, play *yaml.Node, p *playbook, files map[string][]byte) (edits []edit) {
	switch {
	case value(play, playKeys...) != nil:
	case value(play, playbookIncludes...) != nil:
		return c.includePlaybook(r, s, play, files)
	default:
		c.refuse(rspec.BadArgs, r.recipePlace(play), "write a play, such as: - tasks: […]", "recipe %.80q has an item that is no play", r.ID)
		return nil
	}
	if hosts := value(play, "hosts"); hosts != nil && r.TextLine > 0 {
		c.warn(r.recipePlace(hosts), "leave hosts out", "recipe %.80q has hosts, which are kept: the recipe runs on each node for itself only if that is among them", r.ID)
	}
	edits, ok := s.insert(play)
	if !ok {
		c.refuse(rspec.BadArgs, r.recipePlace(play), "add hosts: all and become: yes to it", "recipe %.80q has a play that cannot be completed", r.ID)
	}
	for _, name := range taskLists {
		inclusions(value(play, name), func(t taskLine) {
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

func bareInclude(key *yaml.Node) bool { return strings.TrimPrefix(key.Value, builtin) == "include" }

// taskInclude returns what replaces "include", which new versions of Ansible do not have.
func taskInclude(task *yaml.Node) string {
	for i := 0; i < len(task.Content); i += 2 {
		if key := task.Content[i].Value; key == "loop" || strings.HasPrefix(key, "with_") {
			return "include_tasks" // a file in a loop cannot be read before the play begins
		}
	}
	return "import_tasks"
}

// includePlaybook reads an item that includes another recipe as plays.
func (c *compiler) includePlaybook(r *Recipe, s *source, item *yaml.Node, files map[string][]byte) []edit {
	other, ok := c.included(r, value(item, playbookIncludes...))
	if !ok {
		return nil
	}
	c.addFiles(r, files, other, c.playbook(other, r.recipePlace(item)))
	for i := 0; i < len(item.Content); i += 2 {
		key := item.Content[i]
		if at, ok := s.offset(key); ok && bareInclude(key) && strings.HasPrefix(s.text[at:], key.Value) {
			return []edit{{at, at + len(key.Value), "import_playbook"}}
		}
	}
	return nil
}

// includeTasks adds the recipe that a task includes.
func (c *compiler) includeTasks(r *Recipe, t taskLine, files map[string][]byte) {
	other, ok := c.included(r, t.file)
	if !ok {
		return
	}
	c.addFiles(r, files, other, c.taskFile(other, r.recipePlace(t.task)))
}

// addFiles adds the recipe other as p, and what it includes.
func (c *compiler) addFiles(r *Recipe, files map[string][]byte, other *Recipe, p playbook) {
	c.addFile(r, files, other.ID+".yml", p.body)
	for _, f := range p.files {
		if c.tooManyFiles {
			return
		}
		c.addFile(r, files, f.Path, f.Body)
	}
}

// addFile refuses a recipe that is included in two forms.
func (c *compiler) addFile(r *Recipe, files map[string][]byte, path string, body []byte) {
	if was, ok := files[path]; ok && !bytes.Equal(was, body) {
		c.refuse(rspec.BadArgs, r.Place, "include it in one of the two ways", "recipe %.80q includes %.80q both as tasks and as plays", r.ID, path)
	}
	switch _, known := files[path]; {
	case len(body) == 0 || known || c.tooManyFiles:
	case len(files) < maxSteps:
		files[path] = body
	default:
		c.tooManyFiles = true
		c.refuse(rspec.TooBig, r.Place, "include fewer", "recipe %.80q includes more than %d others", r.ID, maxSteps)
	}
}

// included returns the recipe whose file a node of the recipe r names; ok is false for files of
// the nodes themselves, and after an error.
func (c *compiler) included(r *Recipe, file *yaml.Node) (other *Recipe, ok bool) {
	if file == nil || file.Kind != yaml.ScalarNode || strings.HasPrefix(file.Value, "/") || strings.Contains(file.Value, "{{") {
		return nil, false
	}
	name, parameters, _ := strings.Cut(strings.TrimSpace(file.Value), " ")
	id, isYAML := strings.CutSuffix(strings.TrimPrefix(name, "./"), ".yml")
	other = c.recipes[id]
	switch {
	case other == nil || !isYAML:
		c.refuse(rspec.BadArgs, r.recipePlace(file), "include a recipe of the document by its name and .yml", "recipe %.80q includes %.80q, which is no recipe", r.ID, name)
		return nil, false
	case parameters != "":
		c.refuse(rspec.BadArgs, r.recipePlace(file), "write them as vars of the task", "recipe %.80q includes %.80q with parameters in the same line", r.ID, name)
		return nil, false
	}
	return other, true
}

// taskFile returns a recipe as a list of tasks: the tasks of its plays.
func (c *compiler) taskFile(r *Recipe, at Place) playbook {
	if p, ok := c.taskFiles[r.ID]; ok {
		return p
	}
	c.taskFiles[r.ID] = playbook{} // ends inclusions in a circle
	s, err := parseSource(r.Text)
	if err != nil {
		c.refuse(rspec.BadArgs, at, "write a list of tasks or plays", "recipe %.80q: %v", r.ID, err)
		return playbook{}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range s.root.Content {
		c.addTasks(r, list, item)
	}
	files := map[string][]byte{}
	inclusions(list, func(t taskLine) {
		c.includeTasks(r, t, files)
		if bareInclude(t.key) {
			t.key.Value = taskInclude(t.task)
		}
	})
	p := playbook{}
	if p.body, err = marshal(list); err != nil || !isYAML(p.body) {
		c.refuse(rspec.BadArgs, at, "write it as a list of tasks without anchors", "recipe %.80q cannot be included as tasks", r.ID)
	}
	for _, name := range sorted(files) {
		p.files = append(p.files, generate.File{Path: name, Body: files[name]})
	}
	c.taskFiles[r.ID] = p
	return p
}

// blockKeys are keys of a play that its tasks keep.
var blockKeys = []string{"vars", "environment", "become", "become_user", "tags"}

// addTasks adds the tasks of an item to list. An item that is no play is a task.
func (c *compiler) addTasks(r *Recipe, list, item *yaml.Node) {
	if value(item, playKeys...) == nil {
		list.Content = append(list.Content, item)
		return
	}
	if extra := value(item, "roles", "handlers", "import_playbook"); extra != nil {
		c.refuse(rspec.BadArgs, r.recipePlace(extra), "write tasks with import_role, or include the recipe beside the plays", "recipe %.80q is included as tasks, but has roles, handlers or further plays", r.ID)
	}
	tasks := &yaml.Node{Kind: yaml.SequenceNode}
	for _, name := range taskLists[:3] {
		if part := value(item, name); part != nil && part.Kind == yaml.SequenceNode {
			tasks.Content = append(tasks.Content, part.Content...)
		}
	}
	block := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range blockKeys {
		if v := value(item, key); v != nil {
			block.Content = append(block.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
		}
	}
	if len(block.Content) == 0 {
		list.Content = append(list.Content, tasks.Content...)
		return
	}
	block.Content = append(block.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "block"}, tasks)
	list.Content = append(list.Content, block)
}

func isYAML(text []byte) bool {
	var n yaml.Node
	return yaml.Unmarshal(text, &n) == nil
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

// secrets are texts that look like secrets.
var (
	secretText = regexp.MustCompile(`(?i)password\s*[=:]|passwd|token|private[ _-]?key`)
	secretURL  = regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`)
)

// checkRecipes refuses recipes of the document that cannot run, and warns about those that run
// nowhere, have secrets, hosts, or unknown roles.
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
		line := r.TextLine
		for text := range strings.SplitSeq(r.Text, "\n") {
			if what := secretText.FindString(text); what != "" {
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

// document returns the parameter with the document, if a recipe mentions it.
func (c *compiler) document() []generate.Feature {
	const name = "IM_INFRASTRUCTURE_RADL"
	mentions := func(r *Recipe) bool { return strings.Contains(r.Text, name) }
	if !slices.ContainsFunc(sorted(c.recipes), func(id string) bool { return mentions(c.recipes[id]) }) {
		return nil
	}
	if c.json == "" {
		var tree any
		if err := json.Unmarshal(c.current.JSON(), &tree); err == nil {
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
