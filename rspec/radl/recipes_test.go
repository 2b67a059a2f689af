package radl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/radl"
)

// compileRecipes returns the step of the recipe a, which runs on a node.
func compileRecipes(t *testing.T, recipes string) (body string, files map[string]string, problems []string) {
	t.Helper()
	source := recipes + "system s ()\ncontextualize (system s configure a step 1)\ndeploy s 1\n"
	d, list := radl.Parse([]byte(source), nil)
	if d == nil {
		t.Fatal(rspec.Lines(list))
	}
	r, list := radl.Compile(d, radl.Options{})
	files = map[string]string{}
	if r != nil && len(r.Nodes[0].Steps) > 0 {
		step := r.Nodes[0].Steps[0]
		body = string(step.Body)
		for _, f := range step.Files {
			files[f.Path] = string(f.Body)
		}
	}
	return body, files, rspec.Lines(list)
}

func TestPlaybooks(t *testing.T) {
	const full = "hosts: all\n  become: yes\n  "
	for _, tt := range []struct{ rule, text, want, problem string }{
		{"a play without hosts", "- tasks:\n  - debug:", "- " + full + "tasks:\n  - debug:", ""},
		{"bytes stay as they are", "---\n# why\n- name:   \"x\"   # c\n  tasks: []\n\n", "---\n# why\n- " + full + "name:   \"x\"   # c\n  tasks: []\n\n", ""},
		{"several plays", "- tasks: []\n- roles: []", "- " + full + "tasks: []\n- " + full + "roles: []", ""},
		{"indented", " -   tasks: []", " -   hosts: all\n     become: yes\n     tasks: []", ""},
		{"flow style", "[{tasks: []}, {name: é, roles: []}]", "[{hosts: all, become: yes, tasks: []}, {hosts: all, become: yes, name: é, roles: []}]", ""},
		{"flow style in a list", "- {tasks: []}", "- {hosts: all, become: yes, tasks: []}", ""},
		{"an anchor", "- &a\n  tasks: []", "- &a\n  " + full + "tasks: []", ""},
		{"hosts are kept with a warning", "- hosts: wn\n  tasks: []", "- become: yes\n  hosts: wn\n  tasks: []", "line 3: recipe \"a\" has hosts, which are kept"},
		{"another node's task", "- tasks:\n  - {ping: , delegate_to: \"{{ groups['front'][0] }}\"}\n  - ping:\n    delegate_to: front-0", "- " + full + "tasks:\n  - {ping: , delegate_to: \"{{ groups['front'][0] }}\"}\n  - ping:\n    delegate_to: front-0",
			"line 6: recipe \"a\" has delegate_to, which has no effect"},
		{"the own node's task", "- tasks:\n  - ping:\n    delegate_to: localhost", "- " + full + "tasks:\n  - ping:\n    delegate_to: localhost", ""},
		{"a variable that is not set", "- tasks: [{debug: \"msg={{IM_NODE_ANSIBLE_IP}}\"}]", "- " + full + "tasks: [{debug: \"msg={{IM_NODE_ANSIBLE_IP}}\"}]", "line 3: recipe \"a\" has the variable IM_NODE_ANSIBLE_IP, which is not set"},
		{"variables that are set", "- tasks: [{debug: \"msg={{IM_NODE_NET_0_IP}}{{IM_MASTER_FQDN}}{{IM_NODE_X_NUM_VMS}}\"}]", "- " + full + "tasks: [{debug: \"msg={{IM_NODE_NET_0_IP}}{{IM_MASTER_FQDN}}{{IM_NODE_X_NUM_VMS}}\"}]", ""},
		{"become is kept", "- become: no\n  tasks: []", "- hosts: all\n  become: no\n  tasks: []", ""},
		{"both", "- become: yes\n  hosts: all\n  tasks: []", "- become: yes\n  hosts: all\n  tasks: []", ""},
		{"hosts: all is what a play gets", "- hosts: all\n  tasks: []", "- become: yes\n  hosts: all\n  tasks: []", ""},
		{"sudo without a password", "- tasks:\n  - copy: dest=/etc/sudoers.d/a content='alice ALL=(ALL) NOPASSWD:ALL'", "- " + full + "tasks:\n  - copy: dest=/etc/sudoers.d/a content='alice ALL=(ALL) NOPASSWD:ALL'", ""},
		{"sudo without a password, and a password", "- tasks:\n  - shell: echo NOPASSWD, echo alice:x | chpasswd", "- " + full + "tasks:\n  - shell: echo NOPASSWD, echo alice:x | chpasswd", "line 4: recipe \"a\" has \"passwd\""},
		{"a variable with a password", "- vars: {PASSWD: x}\n  tasks: []", "- " + full + "vars: {PASSWD: x}\n  tasks: []", "line 3: recipe \"a\" has \"PASSWD\""},
		{"the list of accounts", "- tasks:\n  - shell: getent passwd alice || grep alice /etc/passwd", "- " + full + "tasks:\n  - shell: getent passwd alice || grep alice /etc/passwd", ""},
		{"include has another name today", "- tasks:\n  - {include: /etc/x.yml}\n  - include: /etc/y.yml\n    with_items: [1]\n", "- " + full + "tasks:\n  - {import_tasks: /etc/x.yml}\n  - include_tasks: /etc/y.yml\n    with_items: [1]\n", ""},
		{"no play", "- tasks: []\n- {role: x}", "", "line 4: recipe \"a\" has an item that is no play"},
		{"a role that is not indented", "- roles:\n- {role: alice.web}", "", "line 4: recipe \"a\" has an item that is not indented, so it is not one of the roles of the play before it; write it under roles:"},
		{"a task that is not indented", "- become: yes\n  pre_tasks:\n- debug:", "", "it is not one of the pre_tasks of the play before it"},
		{"no list", "packages: [x]", "", "it is not a list of plays; write a list of plays, each with tasks or roles; if it is a text for cloud-init"},
		{"two YAML documents", "- tasks: []\n---\n- tasks: []", "", "more than one YAML document"},
		{"only a comment", "# nothing", "", ""},
		{"a key that begins in another way", "- ? tasks\n  : []", "", "its plays have a form that cannot be completed"},
		{"a role of nobody", "- roles: [{role: alice.web}]", "- " + full + "roles: [{role: alice.web}]", "the role \"alice.web\", which is not among the applications"},
		{"a password in a body", "- tasks:\n  - user: name=bob password=x", "- " + full + "tasks:\n  - user: name=bob password=x", "line 4: recipe \"a\" has \"password=\""},
		{"a private key in a body", "- tasks:\n  - copy: {dest: /k, content: '-----BEGIN OPENSSH PRIVATE KEY-----'}", "- " + full + "tasks:\n  - copy: {dest: /k, content: '-----BEGIN OPENSSH PRIVATE KEY-----'}", "line 4: recipe \"a\" has \"PRIVATE KEY\""},
		{"a password to become root", "- vars: {ansible_become_pass: x}\n  tasks: []", "- " + full + "vars: {ansible_become_pass: x}\n  tasks: []", "line 3: recipe \"a\" has \"_pass:\""},
		{"a password in quotes", "- vars: {\"db_pass\": x}\n  tasks: []", "- " + full + "vars: {\"db_pass\": x}\n  tasks: []", "line 3: recipe \"a\" has \"_pass\\\":\""},
		{"no password", "- vars: {compass: x}\n  tasks: []", "- " + full + "vars: {compass: x}\n  tasks: []", ""},
		{"a password in a URL", "- tasks:\n  - get_url: url=https://bob:x@example.org/", "- " + full + "tasks:\n  - get_url: url=https://bob:x@example.org/", "line 4: recipe \"a\" has a URL with a password"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			body, _, problems := compileRecipes(t, recipe("a", tt.text))
			if strings.TrimRight(body, "\n") != strings.TrimRight(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", body, tt.want)
			}
			if fmt.Sprint(len(problems)) != map[bool]string{true: "0", false: "1"}[tt.problem == ""] || tt.problem != "" && !strings.Contains(problems[0], tt.problem) {
				t.Errorf("problems %q, want %q", problems, tt.problem)
			}
		})
	}
}

func TestInclusions(t *testing.T) {
	for _, tt := range []struct {
		rule, recipes string
		want          []string // the files, "NAME\nTEXT"
		problem       string
	}{
		{"as tasks", recipe("a", "- tasks:\n  - include: b.yml") + recipe("b", "- tasks:\n  - debug:"), []string{"b.yml\n- debug:\n"}, ""},
		{"vars are kept", recipe("a", "- tasks:\n  - include_tasks: b.yml") + recipe("b", "- vars: {x: 1}\n  pre_tasks:\n  - setup:\n  tasks:\n  - debug:"), []string{"b.yml\n- vars: {x: 1}\n  block:\n    - setup:\n    - debug:\n"}, ""},
		{"a list of tasks", recipe("a", "- tasks:\n  - import_tasks: b.yml") + recipe("b", "- debug:\n- include: c.yml") + recipe("c", "- ping:"), []string{"b.yml\n- debug:\n- import_tasks: c.yml\n", "c.yml\n- ping:\n"}, ""},
		{"in a block", recipe("a", "- tasks:\n  - block:\n    - ansible.builtin.include_tasks: {file: ./b.yml}") + recipe("b", "- ping:"), []string{"b.yml\n- ping:\n"}, ""},
		{"as plays", recipe("a", "- include: b.yml\n- tasks: []") + recipe("b", "- tasks:\n  - ping:"), []string{"b.yml\n- hosts: all\n  become: yes\n  tasks:\n  - ping:\n"}, ""},
		{"in a circle", recipe("a", "- tasks:\n  - include: b.yml") + recipe("b", "- include: b.yml"), []string{"b.yml\n- import_tasks: b.yml\n"}, ""},
		{"an unknown recipe", recipe("a", "- tasks:\n  - include: x.yml"), nil, "line 4: recipe \"a\" includes \"x.yml\", which is no recipe"},
		{"with parameters", recipe("a", "- tasks:\n  - include: b.yml x=1") + recipe("b", "- ping:"), nil, "with parameters in the same line"},
		{"tasks with roles", recipe("a", "- tasks:\n  - include: b.yml") + recipe("b", "- roles: [x]"), nil, "recipe \"b\" is included as tasks, but has roles"},
		{"in both ways", recipe("a", "- tasks:\n  - include: b.yml\n- import_playbook: b.yml") + recipe("b", "- tasks: [ping: ]"), nil, "both as tasks and as plays"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, files, problems := compileRecipes(t, tt.recipes)
			var got []string
			for name, text := range files {
				got = append(got, name+"\n"+text)
			}
			slices.Sort(got)
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("files\n%q\nwant\n%q", got, tt.want)
			}
			if (len(problems) == 0) != (tt.problem == "") || tt.problem != "" && !strings.Contains(problems[0], tt.problem) {
				t.Errorf("problems %q, want %q", problems, tt.problem)
			}
		})
	}
}

// TestRolesWithoutOutsideAccess requires the catalogue where nodes reach no other source.
func TestRolesWithoutOutsideAccess(t *testing.T) {
	v := inventoryOf(t, "outbound: no\n")
	const source = "system s (disk.0.applications contains (name = 'ansible.roles.%s'))\n"
	play := recipe("s", "- roles: []") + "deploy s 1"
	row{"", fmt.Sprintf(source, "bob.db") + play, "", `line 1: the nodes of this site cannot fetch the Ansible role "bob.db": they do not reach the outside network, and the site's catalogue does not have it; ask the operator to put its archive, such as bob.db.tar.gz, into the folder catalogue of the site, and to write in inventory.yaml, under galaxy: - {name: "bob.db", url: bob.db.tar.gz}`}.check(t, radl.Options{Site: v})
	row{"", fmt.Sprintf(source, "alice.web") + play, "'https://example.org/web.tar.gz,,alice.web'", `line 1: nodes of this site do not reach the outside network, and must fetch "alice.web" from "https://example.org/web.tar.gz"; ask the operator to put the archive into the folder catalogue of the site`}.check(t, radl.Options{Site: v})
	row{"", fmt.Sprintf(source, "bob.db") + "deploy s 1", "<node\nno ansible-galaxy", `line 1: the Ansible role "bob.db" is not installed on the nodes of "s": they do not reach the outside network`}.check(t, radl.Options{Site: v})
}

// TestCatalogueFiles compiles roles, collections and software that the site delivers.
func TestCatalogueFiles(t *testing.T) {
	v := inventoryOf(t, "outbound: no\n")
	delivered := *v
	delivered.Galaxy = map[string]string{"bob.db": "catalogue:bob-db.tar.gz", "alice.tools": "catalogue:alice-tools-1.0.0.tar.gz"}
	delivered.Software = []inventory.Software{{Name: "octave", Version: "8.4", Install: "catalogue:octave.tar.gz"}}
	const source = `system s (
  disk.0.applications contains (name = 'ansible.roles.bob.db') and
  disk.0.applications contains (name = 'ansible.collections.alice.tools') and
  disk.0.applications contains (name = 'octave')
)
`
	request, problems := compile(t, source+recipe("s", "- roles: [bob.db]")+"deploy s 1", radl.Options{Site: &delivered})
	golden(t, "catalogue.xml", request)
	if len(problems) > 0 {
		t.Errorf("problems %q", problems)
	}
	row{"", "system s (disk.0.applications contains (name = 'tomcat' and version = '9.0'))\ndeploy s 1", "tomcat-9.tgz",
		`line 1: nodes of this site do not reach the outside network, and must fetch "tomcat" from "https://example.org/tomcat-9.tgz"`}.check(t, radl.Options{Site: v})
}
