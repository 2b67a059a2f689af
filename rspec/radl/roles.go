package radl

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/step"
)

// role is an Ansible role or collection.
type role struct {
	isCollection bool
	// source is a URL; empty for a name in Ansible Galaxy.
	source, name, version string
}

func (r role) kind() string {
	if r.isCollection {
		return "collection"
	}
	return "role"
}

// Folders in which Ansible finds what all users of a node have.
const (
	rolesFolder       = "/etc/ansible/roles"
	collectionsFolder = "/usr/share/ansible/collections"
)

// roleOf reads the name of an application such as ansible.roles.alice.web,v1.0 or
// ansible.roles.git+https://example.org/web|web.
func roleOf(application string) (r role, ok bool) {
	text, isRole := strings.CutPrefix(application, "ansible.roles.")
	if !isRole {
		text, isRole = strings.CutPrefix(application, "ansible.modules.") // the old spelling
	}
	if !isRole {
		if text, r.isCollection = strings.CutPrefix(application, "ansible.collections."); !r.isCollection {
			return r, false
		}
	}
	source, name, isNamed := strings.Cut(text, "|")
	if !strings.Contains(source, "://") {
		r.name, r.version, _ = strings.Cut(text, ",")
		if r.isCollection && r.version == "" {
			r.name, r.version, _ = strings.Cut(text, ":")
		}
		return r, true
	}
	if isNamed {
		r.name, r.version, _ = strings.Cut(name, ",")
	}
	if base, version, ok := strings.Cut(source, ","); ok && r.version == "" {
		source, r.version = base, version
	}
	r.source = source
	if r.name == "" {
		r.name = path.Base(strings.TrimSuffix(source, "/"))
		for _, ending := range []string{".git", ".gz", ".tgz", ".tar"} {
			r.name = strings.TrimSuffix(r.name, ending)
		}
	}
	return r, true
}

// collectRoles collects the roles of all systems with nodes: every node that runs recipes gets
// all, since a system may state the roles for the others.
func (c *compiler) collectRoles() {
	names := map[string]bool{}
	add := func(b *Block) {
		b.roles(func(f *Feature, r role) {
			if key := r.name + "|" + r.source; !names[key] {
				names[key] = true
				c.addRole(f, r)
			}
		})
	}
	for _, s := range c.systemOrder {
		add(s.block)
	}
	for _, id := range sorted(c.afterExisting) {
		if b := c.systemBlocks[id]; b != nil {
			add(b)
		}
	}
}

// roles calls visit for each role that a system names.
func (b *Block) roles(visit func(*Feature, role)) {
	for i := range b.Features {
		f := &b.Features[i]
		if _, rest, ok := numbered(f.Name, "disk"); !ok || rest != "applications" {
			continue
		}
		if r, ok := roleOf(groupText(f, "name")); ok {
			if r.version == "" {
				r.version = groupText(f, "version")
			}
			visit(f, r)
		}
	}
}

// rolesOf returns the roles that the nodes of s install: all, if they run recipes; else those that s
// names and that its nodes can install.
func (c *compiler) rolesOf(s *system) (list []role) {
	if c.runsAnsible(s.block.ID) {
		return c.roles
	}
	s.block.roles(func(f *Feature, r role) {
		i := slices.IndexFunc(c.roles, func(x role) bool { return x.name == r.name && x.source == r.source })
		switch {
		case i < 0: // it was refused
		case c.isOutOfReach(s.site, r):
			c.warn(f.Place, "leave it out, since no recipe uses it, or "+addToGalaxy(r), "the Ansible %s %.80q is not installed on the nodes of %.80q: they do not reach the outside network, and the site's catalogue does not have it", r.kind(), r.name, s.block.ID)
		case s.lacksAnsible:
			c.warn(f.Place, "request another image, or leave it out, since no recipe uses it", "the Ansible %s %.80q is not installed on the nodes of %.80q: their image does not list Ansible", r.kind(), r.name, s.block.ID)
		default:
			list = append(list, c.roles[i])
		}
	})
	return list
}

// isOutOfReach reports whether the nodes of a site cannot fetch a role.
func (c *compiler) isOutOfReach(site *inventory.Inventory, r role) bool {
	return site != nil && site.OutsideAccess == inventory.No && catalogue(site, r) == ""
}

// needsAnsible reports whether the nodes of a system use Ansible.
func (c *compiler) needsAnsible(b *Block) (needs bool) {
	b.roles(func(*Feature, role) { needs = true })
	return needs || c.runsAnsible(b.ID)
}

// groupText returns the text of a feature inside of "contains".
func groupText(f *Feature, name string) string {
	for i := range f.Value.Group {
		if g := &f.Value.Group[i]; g.Name == name {
			return g.Value.String()
		}
	}
	return ""
}

// addRole adds a role to those that nodes install. It refuses a wrong name, and a role that the nodes cannot fetch.
func (c *compiler) addRole(f *Feature, r role) {
	if !isWord(r.name) || r.source != "" && !isWord(r.source) || r.version != "" && !isWord(r.version) {
		c.refuse(rspec.BadArgs, f.Place, "write a name such as ansible.roles.NAME, or ansible.roles.URL|NAME", "%.80q is not the name of an Ansible role or collection", groupText(f, "name"))
		return
	}
	c.roles = append(c.roles, r)
	if url := catalogue(c.o.Site, r); isFetched(c.o.Site, url) {
		c.warnFetched(f.Place, r.name, url)
	}
	if c.runsRecipes() && c.isOutOfReach(c.o.Site, r) {
		c.refuse(rspec.Unsupported, f.Place, addToGalaxy(r), "the nodes of this site cannot fetch the Ansible %s %.80q: they do not reach the outside network, and the site's catalogue does not have it", r.kind(), r.name)
	}
}

// addToGalaxy says what an operator does so that nodes get a role.
func addToGalaxy(r role) string {
	return fmt.Sprintf("ask the operator to put its archive, such as %s.tar.gz, into the folder %s of the site, and to write in inventory.yaml, under galaxy: - {name: %q, url: %s.tar.gz}", path.Base(r.name), inventory.CatalogueFolder, cmp.Or(r.source, r.name), path.Base(r.name))
}

// isFetched reports whether nodes must fetch a URL of the site's catalogue, and do not reach the
// outside network.
func isFetched(site *inventory.Inventory, url string) bool {
	return site != nil && site.OutsideAccess == inventory.No && url != "" && !inventory.IsDelivered(url)
}

func (c *compiler) warnFetched(at Place, name, url string) {
	if !c.warned[url] {
		c.warned[url] = true
		c.warn(at, "ask the operator to put the archive into the folder "+inventory.CatalogueFolder+" of the site, and to write the name of the file in place of the URL", "nodes of this site do not reach the outside network, and must fetch %.80q from %.80q", name, url)
	}
}

// catalogue returns the URL of a role in the site's catalogue; empty if it has none.
func catalogue(site *inventory.Inventory, r role) string {
	if site == nil {
		return ""
	}
	if url := site.Galaxy[r.source]; url != "" {
		return url
	}
	return site.Galaxy[r.name]
}

// runsRecipes reports whether a system with new nodes at the known site runs recipes.
func (c *compiler) runsRecipes() bool {
	return slices.ContainsFunc(c.systemOrder, func(s *system) bool { return s.site != nil && c.runsAnsible(s.block.ID) })
}

// rolesStep returns the step that installs roles on a node.
func rolesStep(site *inventory.Inventory, roles []role) generate.Step {
	var text strings.Builder
	text.WriteString("set -e\nexport HOME=/root\n") // else the user's ~/.ansible would be root's
	var files []generate.File
	for _, r := range roles {
		url := catalogue(site, r)
		if name, ok := step.CatalogueFile(url); ok {
			f := generate.File{Path: "galaxy/" + name, URL: url}
			if !slices.ContainsFunc(files, func(x generate.File) bool { return x.Path == f.Path }) {
				files = append(files, f)
			}
			url = "./" + f.Path
		}
		folder, options := rolesFolder, ""
		if r.isCollection {
			folder = collectionsFolder
		}
		if url != "" {
			options = " --no-deps" // the catalogue has them under their own names
		}
		text.WriteString("ansible-galaxy " + r.kind() + " install --force" + options + " -p " + folder + " " + quote(r.galaxyArgument(url)) + "\n")
	}
	return generate.Step{Kind: generate.Script, Name: "install Ansible roles", Language: "sh", Body: []byte(text.String()), Operation: step.Install, Files: files}
}

// galaxyArgument returns the argument with which ansible-galaxy installs the role. url is that of its archive in the
// site's catalogue, or empty.
func (r role) galaxyArgument(url string) string {
	switch {
	case url != "" && r.isCollection:
		return url
	case url != "":
		return url + ",," + r.name
	case r.source != "" && r.isCollection:
		return r.source
	case r.source != "":
		return r.source + "," + r.version + "," + r.name
	case r.version != "" && r.isCollection:
		return r.name + ":" + r.version
	case r.version != "":
		return r.name + "," + r.version
	}
	return r.name
}

// quote quotes a word for sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// checkRoles warns about roles that the recipe r uses and no application names.
func (c *compiler) checkRoles(r *Recipe, p playbook) {
	for _, name := range p.roles {
		if known := slices.ContainsFunc(c.roles, func(x role) bool { return x.name == name }); !known && !c.warned[name] {
			c.warned[name] = true
			c.warn(r.Place, "add disk.0.applications contains (name='ansible.roles."+display.Cut(name, 80)+"')", "recipe %.80q uses the role %.80q, which is not among the applications", r.ID, name)
		}
	}
}
