package main

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/site"
	"patchbay/am/testkit/require"
	"patchbay/inventory"
	"patchbay/rspec/compile"
)

// ansibleRequest has a node that publishes a page and one that shows it, with plain and with
// failing playbooks.
func ansibleRequest() string {
	step := func(order, body, files string) string {
		return `<setup:step language="ansible" order="` + order + `">` + base64.StdEncoding.EncodeToString([]byte(body)) + files + `</setup:step>`
	}
	file := `<setup:file path="templates/page.j2">` + base64.StdEncoding.EncodeToString([]byte(
		"{{ IM_NODE_HOSTNAME }} sees {{ hostvars[groups.front[0]].IM_NODE_PRIVATE_IP }} of {{ IM_FRONT_NUM_VMS + IM_NODE_NUM }}, {{ IM_MASTER_FQDN }}, {{ title }}")) + `</setup:file>`
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request" xmlns:setup="http://patchbay.example.org/rspec/ext/setup/1" xmlns:origin="http://patchbay.example.org/rspec/ext/origin/1" xmlns:net="http://patchbay.example.org/rspec/ext/net/1">
  <node client_id="front-0"><origin:source language="radl" id="front" ordinal="0"/>
    <interface client_id="front-0:0"><net:dns name="web.example.org"/></interface>
    <services>` + step("1", `
- hosts: all
  tasks:
    - copy: {content: "{{ ansible_hostname }}", dest: /root/fact}
`, "") + `</services></node>
  <node client_id="back-0"><origin:source language="radl" id="back" ordinal="0"/><interface client_id="back-0:0"/>
    <services><setup:parameter name="title" value="a page"/>` + step("2", `
- hosts: localhost
  gather_facts: false
  tasks: [{copy: {content: here, dest: /root/local}}]
- hosts: back-0
  gather_facts: false
  tasks:
    - template: {src: page.j2, dest: /root/page}
    - copy:
        dest: /root/name
        content: "{{ hostvars | json_query('\"front-0\".IM_NODE_FQDN') }}"
`, file) + step("3", `
- hosts: all
  gather_facts: false
  tasks: [{fail: {msg: no luck}}]
`, "") + `</services></node>
  <link client_id="lan"><interface_ref client_id="front-0:0"/><interface_ref client_id="back-0:0"/></link>
</rspec>`
}

// TestOnHostAnsible plays playbooks on real nodes.
func TestOnHostAnsible(t *testing.T) {
	require.Tool(t, "ansible-playbook")
	s := newSetupSite(t, "ansible")
	x := s.slice(t, "ansible")
	x.create(ansibleRequest())
	all := x.await("the last step has failed", func(v client.Sliver) bool {
		return len(v.Services) == 2 && v.Services[1].State == string(am.StepFailed)
	}, "back-0")
	steps := all["back-0"].Services
	if steps[0].State != string(am.StepDone) || all["front-0"].Services[0].State != string(am.StepDone) {
		t.Fatalf("the playbooks have not ended well: %+v", all)
	}
	if out := steps[1].Output; !strings.Contains(out, "no luck") {
		t.Errorf("R29 a failed play is a failed step with its output: %q", out)
	}
	doors := x.logins()
	for _, tt := range []struct{ rule, node, file, want string }{
		{"facts", "front-0", "fact", "web"},
		{"variables of this and of the other node, and files", "back-0", "page", "back-0 sees 10.128.0.1 of 1, web.example.org, a page"},
		{"a play on localhost", "back-0", "local", "here"},
		{"R29 json_query", "back-0", "name", "web.example.org"},
	} {
		if got := x.run(doors[tt.node], "sudo cat /root/"+tt.file); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.want)
		}
	}
	x.delete()
}

// radlText is like the examples of the language: nodes of a size, the document as a variable, names of
// nodes, and a JSON form.
const (
	radlText = `network net (outbound = 'no')
system small_node (
  cpu.arch = 'x86_64' and
  cpu.count = 1.0 and
  memory.size >= 512M and
  net_interface.0.connection = 'net' and
  net_interface.0.dns.0.name = 'worker-#N#.example.org' and
  disk.0.os.name = 'linux'
)
system front (
  memory.size >= 512M and
  net_interface.0.connection = 'net' and
  net_interface.0.dns_name = 'thefront'
)
configure front (
@begin
---
- gather_facts: false
  vars:
    NODENAME: '{{IM_INFRASTRUCTURE_RADL|json_query("[?id == ''front''].net_interface_0_dns_name|[0]")}}'
  tasks:
  - copy: dest=/root/radl content="{{ NODENAME }} of {{ groups['all'] | length }}"
@end
)
configure small_node (
@begin
- gather_facts: false
  tasks:
  - shell: printf '%s %s' "$(getent hosts thefront | cut -d' ' -f1)" "$(hostname)" >/root/radl
@end
)
deploy front 1
deploy small_node 1
`
	radlJSON = `[
  {"class": "network", "id": "net", "outbound": "no"},
  {"class": "system", "id": "front", "cpu.count_min": 1.0, "memory.size_min": 536870912, "memory.size_max": 4294967296, "net_interface.0.connection": "net", "disk.0.os.name": "linux"},
  {"class": "configure", "id": "front", "recipes": "\\n---\\n- gather_facts: false\\n  tasks:\\n  - shell: printf %s $(hostname) >/root/radl\\n"},
  {"class": "contextualize", "items": [{"system": "front", "configure": "front", "ctxt_tool": "Ansible"}]},
  {"class": "deploy", "system": "front", "vm_number": 1}
]`
	radlDisk = `system a (
  memory.size >= 512M and
  disk.1.size = 100M and
  disk.1.device = 'hdc' and
  disk.1.fstype = 'ext4' and
  disk.1.mount_path = '/mnt/disk1'
)
deploy a 2
`
)

// TestOnHostRADL compiles RADL for a new site with real nodes, and plays its recipes.
func TestOnHostRADL(t *testing.T) {
	require.Tool(t, "ansible-playbook")
	s := newSetupSite(t, "text", "json", "disk")
	offer := s.offer(t)
	slices := map[string]*setupSlice{}
	for name, source := range map[string]string{"text": radlText, "json": radlJSON, "disk": radlDisk} {
		r, err := compile.Compile([]byte(source), offer)
		if err != nil {
			t.Fatal(err)
		}
		slices[name] = s.slice(t, name)
		slices[name].create(string(r.Request))
	}
	for _, tt := range []struct{ slice, node, command, want string }{
		{"text", "front-0", "sudo cat /root/radl", "thefront of 2"},
		{"text", "small_node-0", "sudo cat /root/radl", "10.128.0.1 worker-0"},
		{"json", "front-0", "sudo cat /root/radl", "front-0"},
		{"disk", "a-1", `findmnt -no FSTYPE /mnt/disk1; df -BM --output=size /mnt/disk1 | awk '/M$/ && $1 + 0 > 80 && $1 + 0 <= 100 {print "fits"}'; sudo touch /mnt/disk1/file`, "ext4\nfits\n"},
	} {
		x := slices[tt.slice]
		x.awaitSetUp()
		if got := x.run(x.logins()[tt.node], tt.command); got != tt.want {
			t.Errorf("%s, %s: %q, want %q", tt.slice, tt.node, got, tt.want)
		}
	}
	for _, x := range slices {
		x.delete()
	}
}

// TestOnHostCatalogue delivers a role, a collection and a program to a node without outside network,
// and refuses a file that has changed.
func TestOnHostCatalogue(t *testing.T) {
	require.Tool(t, "ansible-galaxy")
	s := newSetupSite(t, "a", "b")
	files := filepath.Join(s.dir, inventory.CatalogueFolder)
	build := exec.CommandContext(t.Context(), "sh", "-ec", `
		mkdir -p "$1" web/tasks web/meta tools opt/hello
		echo '- copy: dest=/root/role content=web' >web/tasks/main.yml
		echo 'galaxy_info: {author: alice, description: web, license: none, min_ansible_version: "2.9"}' >web/meta/main.yml
		tar -czf "$1/web.tar.gz" web
		touch tools/README.md
		printf 'namespace: alice\nname: tools\nversion: 1.0.0\nreadme: README.md\nauthors: [alice]\n' >tools/galaxy.yml
		mkdir -p tools/roles/db/tasks
		echo '- copy: dest=/root/collection content=db' >tools/roles/db/tasks/main.yml
		ansible-galaxy collection build --output-path "$1" tools
		printf hello >opt/hello/hello
		tar -cJf "$1/hello.tar.xz" opt`, "sh", files)
	build.Dir = t.TempDir()
	build.Env = append(os.Environ(), "HOME="+build.Dir, "LC_ALL=C.UTF-8")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(s.dir, site.InventoryName)
	write(t, file, readFile(t, file)+`
software:
  - {name: hello, version: 1.0, install: hello.tar.xz, execute: cp /opt/hello/hello /root/program}
galaxy:
  - {name: alice.web, url: web.tar.gz}
  - {name: alice.tools, url: alice-tools-1.0.0.tar.gz}
`)
	if code, out := runCommand(t, "reload", "--config", s.dir); code != 0 {
		t.Fatal(out)
	}
	offer := s.offer(t)
	r, err := compile.Compile([]byte(`system web (
  disk.0.applications contains (name = 'ansible.roles.alice.web') and
  disk.0.applications contains (name = 'ansible.collections.alice.tools') and
  disk.0.applications contains (name = 'hello')
)
configure web (
@begin
---
- gather_facts: false
  roles: [alice.web, alice.tools.db]
@end
)
deploy web 1
`), offer)
	if err != nil {
		t.Fatal(err)
	}
	x := s.slice(t, "a")
	x.create(string(r.Request))
	x.awaitSetUp()
	login := x.logins()["web-0"]
	for name, want := range map[string]string{"role": "web", "collection": "db", "program": "hello"} {
		if got := x.run(login, "sudo cat /root/"+name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if left := x.run(login, "sudo find /var/lib/patchbay/services -name '*deliver*'"); left != "" {
		t.Errorf("delivered files are left: %s", left)
	}
	write(t, filepath.Join(files, "web.tar.gz"), "changed")
	y := s.slice(t, "b")
	y.create(string(r.Request))
	all := y.await("a step has failed", func(v client.Sliver) bool {
		return slices.ContainsFunc(v.Services, func(v client.Service) bool { return v.State == string(am.StepFailed) })
	}, "web-0")
	const want = "the file web.tar.gz of the catalogue changed after the site was read; the operator runs: patchbay reload"
	if !slices.ContainsFunc(all["web-0"].Services, func(v client.Service) bool { return strings.Contains(v.Message, want) }) {
		t.Errorf("%+v, want %s", all["web-0"], want)
	}
	if err := os.Remove(filepath.Join(files, "web.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if code, out := runCommand(t, "reload", "--config", s.dir); code == 0 || !strings.Contains(out, "there is no such file in the folder "+files) {
		t.Errorf("a reload without the file: %d, %s", code, out)
	}
	if got := x.run(login, "sudo cat /root/role"); got != "web" {
		t.Errorf("the running node: %q", got)
	}
	x.delete()
	y.delete()
}
