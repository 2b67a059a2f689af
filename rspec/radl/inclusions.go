package radl

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
	"patchbay/rspec/generate"
)

func bareInclude(key *yaml.Node) bool { return strings.TrimPrefix(key.Value, builtin) == "include" }

// taskInclude returns the key that replaces include in a task, since new versions of Ansible do not have it.
func taskInclude(task *yaml.Node) string {
	for i := 0; i < len(task.Content); i += 2 {
		if key := task.Content[i].Value; key == "loop" || strings.HasPrefix(key, "with_") {
			return "include_tasks" // a file in a loop cannot be read before the play begins
		}
	}
	return "import_tasks"
}

// includePlaybook adds the recipe that an item of r includes as plays to files. It returns the edit that replaces the
// key include, if the item has it.
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

// addFiles adds the recipe other, compiled as p, and what it includes, to the files of the recipe r.
func (c *compiler) addFiles(r *Recipe, files map[string][]byte, other *Recipe, p playbook) {
	c.addFile(r, files, other.ID+".yml", p.body)
	for _, f := range p.files {
		if c.tooManyFiles {
			return
		}
		c.addFile(r, files, f.Path, f.Body)
	}
}

// addFile adds the file with the path to those that the recipe r includes, once. It refuses a file that is included
// as tasks and as plays, a large one, and too many.
func (c *compiler) addFile(r *Recipe, files map[string][]byte, path string, body []byte) {
	if was, ok := files[path]; ok && !bytes.Equal(was, body) {
		c.refuse(rspec.BadArgs, r.Place, "include it in one of the two ways", "recipe %.80q includes %.80q both as tasks and as plays", r.ID, path)
	}
	switch _, known := files[path]; {
	case len(body) == 0 || known || c.tooManyFiles:
	case len(body) > maxBody:
		c.refuse(rspec.TooBig, r.Place, "divide it into several", "recipe %.80q includes %.80q, which has more than %d bytes", r.ID, path, maxBody)
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

// taskFile returns a recipe as a list of tasks: the tasks of its plays. It compiles each recipe once.
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
	visitInclusions(list, func(t taskLine) {
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
