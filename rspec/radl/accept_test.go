package radl_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/radl"
)

const site = `provider: rack
images:
  - {name: debian, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: debian, disk.0.os.version: 12, software.ansible: 2.14, software.java: [11, 17.2]}}
  - {name: ubuntu-12, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: ubuntu, disk.0.os.version: 12.04, cpu.arch: [i686, x86_64]}}
  - {name: ubuntu-22, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: ubuntu, disk.0.os.version: 22.04, cpu.arch: [i686, x86_64]}}
  - {name: ubuntu-24, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: ubuntu, disk.0.os.version: 24.04, cpu.arch: x86_64}}
sliver_types:
  - {name: vm, images: [debian, ubuntu-12, ubuntu-22, ubuntu-24], default_image: debian}
  - {name: pc, images: [debian], default_image: debian}
default_sliver_type: vm
software:
  - {name: tomcat, version: 9.0.1, install: "https://example.org/tomcat-9.tgz", execute: /opt/tomcat/setup}
  - {name: tomcat, version: 10.1, execute: apt-get install -y tomcat}
galaxy: [{name: alice.web, url: "https://example.org/web.tar.gz"}]
clouds: [{name: north, manager: "urn:publicid:IDN+north.example.org+authority+cm"}, {name: here, manager: "urn:publicid:IDN+example.org+authority+cm"}]
components:
  - {name: host, exclusive: false, sliver_types: [vm], capacity: {slots: 100}, capabilities: {cpu.count: 1..64, memory.size: 1M..256G}}
  - {name: pc1, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 16, gpu.count: 2}}
`

func inventoryOf(t testing.TB, more string) *inventory.Inventory {
	t.Helper()
	v, err := inventory.Parse([]byte(site+more), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// compile returns the request, or "" and the problems. The reader must accept the request, and it
// must be valid by the schemas.
func compile(t testing.TB, source string, o radl.Options) (request string, problems []string) {
	t.Helper()
	d, list := radl.Parse([]byte(source), nil)
	if d == nil {
		return "", rspec.Lines(list)
	}
	r, more := radl.Compile(d, o)
	list = append(list, more...)
	if r == nil {
		return "", rspec.Lines(list)
	}
	request = string(r.Write())
	check(t, request, o.Site)
	return request, rspec.Lines(list)
}

func check(t testing.TB, request string, site *inventory.Inventory) {
	t.Helper()
	options := rspec.ReadOptions{CheckSchemas: true}
	if site != nil {
		options.Managers = append(options.Managers, site.Manager)
	}
	// The reader of scripts does not know Ansible yet.
	request = strings.ReplaceAll(regexp.MustCompile(`<setup:file.*</setup:file>`).ReplaceAllString(request, ""), `language="ansible"`, `language="sh"`)
	read, refused := rspec.Check([]byte(request), options)
	if read == nil {
		t.Fatalf("the request is refused: %q\n%s", rspec.Lines(refused), request)
	}
	for _, f := range read.Findings {
		t.Errorf("%v\n%s", f, request)
	}
}

var base64Text = regexp.MustCompile(`(?m)^\s*([A-Za-z0-9+/]{4,}=*)$|>([A-Za-z0-9+/]{4,}=*)<`)

// readable decodes the bodies of a request, and removes the indents.
func readable(request string) string {
	request = base64Text.ReplaceAllStringFunc(request, func(s string) string {
		b, err := base64.StdEncoding.DecodeString(strings.Trim(s, " \n<>"))
		switch {
		case err != nil:
			return s
		case strings.HasSuffix(s, "<"):
			return ">" + string(b) + "<"
		}
		return string(b)
	})
	var lines []string
	for line := range strings.Lines(request) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// row is a document and its outcome. A text in want that begins with "no " must not be in the
// request.
type row struct {
	rule, source string
	want         string // lines that are in the request, in this order
	problems     string // texts that are in the problems, one each
}

func (r row) check(t *testing.T, o radl.Options) {
	t.Helper()
	request, problems := compile(t, r.source, o)
	wanted := nonEmpty(r.problems)
	if len(problems) != len(wanted) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(problems, "\n"), r.problems)
	} else {
		for i, p := range problems {
			if !strings.Contains(p, wanted[i]) {
				t.Errorf("problem %q, want %q", p, wanted[i])
			}
		}
	}
	text := readable(request)
	left := text
	for _, line := range nonEmpty(r.want) {
		if absent, ok := strings.CutPrefix(line, "no "); ok {
			if strings.Contains(text, absent) {
				t.Errorf("%q is in the request", absent)
			}
			continue
		}
		i := strings.Index(left, line)
		if i < 0 {
			t.Errorf("%q is not in the request, or not in this order:\n%s", line, text)
			return
		}
		left = left[i+len(line):]
	}
	if r.want == "" && request != "" {
		t.Errorf("request:\n%s", request)
	}
}

func nonEmpty(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAcceptance(t *testing.T) {
	v := inventoryOf(t, "")
	for _, r := range []row{
		{"R1 two nodes with a constraint", "system node (memory.size >= 512M)\ndeploy node 2", `
			<node client_id="node-0">
			<match:require feature="memory.size" op="ge" value="512M"/>
			<origin:source language="radl" id="node" ordinal="0"/>
			<node client_id="node-1">
			<match:require feature="memory.size" op="ge" value="512M"/>
			no component_id=
			no client_id="node-2"`, ""},
		{"R2 unknown application", "system node (disk.0.applications contains (name='toncat'))\ndeploy node 10", "",
			`line 1: the site has no application "toncat"; did you mean "tomcat"?`},
		{"R2 application of the catalogue, DNS names", r2("tomcat"), `
			<!-- application tomcat: no image has it; version
			<node client_id="node_ubuntu-0">
			<match:require feature="disk.0.os.flavour" value="ubuntu"/>
			<net:dns name="node-0"/>
			<setup:step name="install tomcat 10.1" language="sh" operation="install" background="false">
			apt-get install -y tomcat
			<net:dns name="node-9"/>
			no client_id="node_ubuntu-10"
			<link client_id="net">
			<interface_ref client_id="node_ubuntu-9:0"/>
			<link_type name="lan"/>`, ""},
		{"R2 other names of architectures", "system s (cpu.arch = 'amd64')\ndeploy s 1\nsystem r (cpu.arch = 'i386')\ndeploy r 1\nsystem q (cpu.arch = 'arm64')\ndeploy q 1", `
			the site writes x86_64 for cpu.arch = amd64
			<match:require feature="cpu.arch" value="x86_64"/>
			<match:require feature="cpu.arch" value="i686"/>
			<match:require feature="cpu.arch" value="arm64"/>`, ""},
		{"R3 no nodes", "system x ()\ndeploy x 0", "</rspec>\nno <node", "line 2: no node is deployed; give the number of nodes, as in: deploy x 1"},
		{"contains with a text", "network n (outports contains '22/tcp' and outbound = 'yes')\nsystem s ()\ndeploy s 1", "", "line 1: outports: only applications contain others; write = and a value"},
		{"contains with a text in parentheses", "network n (outports contains ('22/tcp') and outbound = 'yes')\nsystem s ()\ndeploy s 1", "", "line 1: outports: only applications contain others; write = and a value"},
		{"no and", "system s (cpu.count>=1 memory.size>=512m)\ndeploy s 1", "", `line 1: the word and is missing between a feature and the next one, "memory.size"; write and before memory.size`},
		{"a cloud that the site does not know", "system s ()\ndeploy s 1\ndeploy s 1 nort", `
			<node client_id="s-0">
			<node client_id="s-1" component_manager_id="urn:publicid:IDN+nort+authority+cm">`,
			`line 3: this site knows no cloud "nort", so these nodes are for another aggregate, urn:publicid:IDN+nort+authority+cm; leave the cloud out to deploy them here; clouds of this site: here, north`},
		{"all nodes at an aggregate by its name", "system s ()\ndeploy s 1 other.example.org", `
			<node client_id="s-0" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm">`,
			`line 2: this site knows no cloud "other.example.org", so these nodes are for another aggregate`},
		{"one node at an aggregate by its name", "system s ()\ndeploy s 1 other.example.org\ndeploy s 1", `
			<node client_id="s-0" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm">`, ""},
		{"clouds that the site knows", "system s ()\ndeploy s 1 north\ndeploy s 1 here\ndeploy s 1 example.org", `
			<node client_id="s-0" component_manager_id="urn:publicid:IDN+north.example.org+authority+cm">
			<node client_id="s-1">`, ""},
		{"a system that is misspelt", "system worker ()\ndeploy woker 1", "", `line 2: no document defines system woker; did you mean worker? Or define it here`},
		{"R3 no nodes of an unknown system", "deploy x 0", "</rspec>\nno <node", "line 1: no node is deployed"},
		{"R3 only a comment", "# nothing\n", "</rspec>\nno <node", "no node is deployed; add a system, and a line such as: deploy SYSTEM 1"},
		{"R7 double quotes", `system s (disk.0.os.name = "linux" and disk.0.applications contains (name="java"))` + "\ndeploy s 1", `
			application java: the image must have it
			<node
			<match:require feature="software.java"`, ""},
		{"R8 the other spelling of >=", "system s (cpu.count => 2)\ndeploy s 1", `<match:require feature="cpu.count" op="ge" value="2"/>`, ""},
		{"R10 steps of two kinds of nodes, and the deadline", plan10, `
			<setup:plan deadline="1200"/>
			<node client_id="server-0">
			<setup:step name="configure server" language="ansible" order="1">
			- hosts: all
			become: yes
			tasks:
			<setup:step name="configure launch" language="ansible" order="2">
			<node client_id="client-0">
			<setup:step name="configure client" language="ansible" order="1">
			no background="false"`, ""},
		{"R11 recipe with the name of a system", recipe("s", "- tasks: []") + "system s ()\ndeploy s 1", `
			<setup:step name="configure s" language="ansible" order="1">
			- hosts: all`, ""},
		{"R11 only a deadline", recipe("s", "- tasks: []") + "system s ()\ncontextualize 60 ()\ndeploy s 1", `
			<setup:plan deadline="60"/>
			<setup:step name="configure s" language="ansible" order="1">`, ""},
		{"R11 contextualize ()", recipe("s", "- tasks: []") + "system s ()\ncontextualize ()\ndeploy s 1", "<node\nno <setup:step", ""},
		{"R11 with a line only the lines run", recipe("s", "- tasks: []") + recipe("x", "- roles: []") + "system s ()\ncontextualize (system s configure x)\ndeploy s 1", `
			<setup:step name="configure x" language="ansible" background="false">
			no configure s`, `line 1: recipe "s" runs nowhere`},
		{"R14 passwords stay here", "system s (disk.0.os.credentials.password = 'sesame' and disk.0.os.credentials.username = 'alice')\ndeploy s 1", `
			<origin:feature name="disk.0.os.credentials.username" value="alice"/>
			no sesame
			no password`, `disk.0.os.credentials.password`},
		{"R15 data disk", "system s (disk.1.size = 1GB and disk.1.device = 'hdc' and disk.1.fstype = 'ext4' and disk.1.mount_path = '/mnt/disk1')\ndeploy s 1", `
			<setup:disk name="disk 1" size="1GB" mount_path="/mnt/disk1" fstype="ext4" device="hdc"/>`, ""},
		{"data disk without a path", "system s (disk.1.size = 1GB)\ndeploy s 1", `mounted at /mnt/disk1
			<setup:disk name="disk 1" size="1GB" mount_path="/mnt/disk1"/>`, ""},
		{"a disk is never a folder of the host", "system s (disk.1.size = 1GB and disk.1.device = '/etc' and disk.1.mount_path = '/data')\ndeploy s 1", `
			mount_path="/data"/>`, `disk 1: "/etc" is no folder of the host`},
		{"disk with an image", "system s (disk.1.size = 1GB and disk.1.image.url = 'https://example.org/data' and disk.1.mount_path = '/data')\ndeploy s 1", `
			mount_path="/data" image="https://example.org/data"/>`, ""},
		{"disk with one of several images", "system s (disk.1.size = 1GB and disk.1.image.url = ['one://h/1', 'ost://h/2'])\ndeploy s 1", `image="one://h/1"/>`, ""},
		{"disk for swapping", "system s (disk.1.size = 1GB and disk.1.fstype = 'swap')\ndeploy s 1", "", "disk 1: fstype = 'swap' is not possible: a node mounts its disks as file systems; leave the disk out, and ask for more memory.size instead"},
		{"disk with an image alone", "system s (disk.1.image.url = 'https://example.org/data')\ndeploy s 1", "", "disk 1 has an image, but no size, and the size of the image is not known here; add disk.1.size = 10G, or more if the image is larger"},
		{"R17 soft groups are preferences", soft17, `
			no <disk_image
			<match:require feature="disk.0.os.name" value="linux"/>
			<match:prefer weight="101">
			<match:require feature="disk.0.os.version" value="12.04"/>
			<match:prefer weight="100">
			<match:require feature="cpu.count" op="ge" value="2"/>
			<match:prefer weight="50">`, ""},
		{"R18 constraints on GPUs", "system b ()\nsystem a (gpu.count >= 1)\ndeploy b 1\ndeploy a 1", `
			<node client_id="b-0">
			<node client_id="a-0">
			no <sliver_type
			<match:require feature="gpu.count" op="ge" value="1"/>`, ""},
		{"strict bounds stay strict", "system s (price < 0.5 and cpu.performance > 10 ECU)\ndeploy s 1", `
			<match:require feature="price" op="lt" value="0.5"/>
			<match:require feature="cpu.performance" op="gt" value="10 ECU"/>`, ""},
		{"R21, R26 recipes for cloud-init", recipe("s", "runcmd: [ls]") + recipe("t", "#!/bin/sh\nls") + "system s ()\ncontextualize (system s configure s with cloud_init\nsystem s configure t with cloud_init)\ndeploy s 1", `
			<setup:userdata name="cloud-init">
			Content-Type: multipart/mixed;
			Content-Type: text/cloud-config
			#cloud-config
			runcmd: [ls]
			Content-Type: text/x-shellscript
			#!/bin/sh`, ""},
		{"R26 one recipe for cloud-init", recipe("s", "runcmd: [ls]") + "system s ()\ncontextualize (system s configure s with cloud_init)\ndeploy s 1", `
			<setup:userdata name="cloud-init">#cloud-config
			runcmd: [ls]
			no multipart`, ""},
		{"R22 tomcat without nodes", "system tomcat_node (disk.0.applications contains (name='tomcat'))", "</rspec>\nno <node", "line 1: no node is deployed; add a line such as: deploy tomcat_node 1"},
		{"R22 tomcat with archive and command", "system tomcat_node (disk.0.applications contains (name='tomcat' and version='9.0'))\ndeploy tomcat_node 1", `
			<setup:parameter name="IM_APP_TOMCAT_VERSION" value="9.0.1"/>
			<setup:parameter name="IM_tomcat_VERSION" value="9.0.1"/>
			<install url="https://example.org/tomcat-9.tgz" install_path="/" setup:name="install tomcat 9.0.1"/>
			/opt/tomcat/setup`, ""},
		{"application with another version", "system s (disk.0.applications contains (name='tomcat' and version='8'))\ndeploy s 1", "", `line 1: the site has no application "tomcat" with a version >= 8 and < 9`},
		{"application in the image", "system s (disk.0.applications contains (name='java' and version='17' and preinstalled='yes'))\ndeploy s 1", `
			<match:require feature="software.java" op="ge" value="17"/>
			<match:require feature="software.java" op="lt" value="18"/>`, ""},
		{"application in no image", "system s (disk.0.applications contains (name='tomcat' and preinstalled='yes'))\ndeploy s 1", "", `the site has no application "tomcat" in an image that fits`},
		{"R23 a recipe alone", recipe("add_user1", "- tasks:\n  - user: name=user1 password=1234"), "</rspec>\nno <node", "no node is deployed\nline 1: recipe \"add_user1\" runs nowhere\nline 4: recipe \"add_user1\" has \"password=\""},
		{"R25 forms of roles", roles25, `
			ansible-galaxy collection install --force -p /usr/share/ansible/collections 'community.crypto'
			ansible-galaxy role install --force -p /etc/ansible/roles 'http://example.org/role.tgz,,bob.db'
			ansible-galaxy role install --force -p /etc/ansible/roles 'git+https://example.org/r.git,,git-role'
			ansible-galaxy role install --force -p /etc/ansible/roles 'bob.ntp,v1.0.0'
			ansible-galaxy role install --force --no-deps -p /etc/ansible/roles 'https://example.org/web.tar.gz,,alice.web'
			<node client_id="wn-0">
			ansible-galaxy collection install
			<node client_id="plain-0">`, ""},
		{"R12 the JSON form, at another aggregate", json12, `
			<node client_id="wn-0" component_manager_id="urn:publicid:IDN+cloud_id+authority+cm">
			no sliver_type
			<match:require feature="cpu.count" op="ge" value="1"/>
			<match:require feature="memory.size" op="ge" value="536870912"/>
			<net:public/>
			<link client_id="publica-cloud_id">`, "credentials.password\nline 7: this site knows no cloud \"cloud_id\""},
		{"R12 the recipe is repaired, but its items have lost their indentation", strings.Replace(json12, `"contextualize", "items": []`, `"contextualize", "items": [{"system": "wn", "configure": "wn"}]`, 1), "", "credentials.password\nline 5: recipe \"wn\" has an item that is not indented, so it is not one of the roles of the play before it; write it under roles:, with two blanks more before its -\nline 7: this site knows no cloud \"cloud_id\""},
		{"R24 a recipe that another one includes", recipe("add_torque", "- tasks:\n  - include: add_user.yml\n  - command: qmgr") + recipe("add_user", "- tasks:\n  - user: name=user1") +
			"system s ()\ncontextualize (system s configure add_torque)\ndeploy s 1", `
			<setup:file path="add_user.yml">- user: name=user1
			- import_tasks: add_user.yml`, ""},
		{"R29 the document as a variable", recipe("s", "- tasks:\n  - debug: msg={{ IM_INFRASTRUCTURE_RADL | from_json | json_query('[0].id') }}") + "system s (cpu.count >= 1)\ndeploy s 1", `
			<setup:parameter name="IM_INFRASTRUCTURE_RADL" value="[{&#34;class&#34;:&#34;system&#34;,&#34;cpu_count_min&#34;:1,&#34;id&#34;:&#34;s&#34;},{&#34;class&#34;:&#34;deploy&#34;,&#34;system&#34;:&#34;s&#34;,&#34;vm_number&#34;:1}]"/>`, ""},
		{"the document as a variable has networks, systems and deploy sentences only", "description d (x = '{{ y }}')\n" + recipe("s", "- tasks:\n  - debug: msg={{ IM_INFRASTRUCTURE_RADL }}") + "network n ()\nsystem s (net_interface.0.connection = 'n')\ncontextualize 60 (system s configure s)\ndeploy s 1", `
			<setup:parameter name="IM_INFRASTRUCTURE_RADL" value="[{&#34;class&#34;:&#34;network&#34;,&#34;id&#34;:&#34;n&#34;},{&#34;class&#34;:&#34;system&#34;,&#34;id&#34;:&#34;s&#34;,&#34;net_interface_0_connection&#34;:&#34;n&#34;},{&#34;class&#34;:&#34;deploy&#34;,&#34;system&#34;:&#34;s&#34;,&#34;vm_number&#34;:1}]"/>`, ""},
		{"collections and roles without a recipe are installed", "system s (disk.0.applications contains (name = 'ansible.collections.community.crypto') and disk.0.applications contains (name = 'ansible.roles.alice.web'))\nsystem plain ()\ndeploy s 1\ndeploy plain 1", `
			<match:require feature="software.ansible" op="ge" value="0"/>
			ansible-galaxy collection install --force -p /usr/share/ansible/collections 'community.crypto'
			ansible-galaxy role install --force --no-deps -p /etc/ansible/roles 'https://example.org/web.tar.gz,,alice.web'
			<node client_id="plain-0">
			no configure`, ""},
		{"a collection without a recipe and an image without Ansible", "system s (disk.0.os.flavour = 'ubuntu' and disk.0.applications contains (name = 'ansible.collections.community.crypto'))\ndeploy s 1", `
			<node client_id="s-0">
			no ansible-galaxy`, `line 1: the Ansible collection "community.crypto" is not installed on the nodes of "s": their image does not list Ansible; request another image, or leave it out, since no recipe uses it`},
		{"paths of applications", "configure s (\n@begin\n- tasks: []\n@end\n)\nsystem s (disk.0.applications contains (name = 'java' and path = '/opt/java') and disk.0.applications contains (name = 'tomcat'))\ndeploy s 1", `
			<setup:parameter name="IM_java_PATH" value="/opt/java"/>
			<setup:parameter name="IM_tomcat_PATH" value="/usr"/>`, ""},
		{"names of version 2", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.dns.0.name = 'www.example.org' and net_interface.0.dns.1.name = 'api-#N#' and net_interface.0.dns.2.name = 'db@example.org')\ndeploy s 2", `
			<net:dns name="www.example.org"/>
			<net:dns name="api-0"/>
			<net:dns name="db.example.org"/>
			<net:dns name="api-1"/>
			no origin:feature`, ""},
		{"no name of version 2", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.dns.0.name = 'a b')\ndeploy s 1", "", `net_interface.0.dns.0.name: "a b" is not a DNS name`},
		{"other features of names of version 2 are copied", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.dns.0.tls = 'yes')\ndeploy s 1", `<origin:feature name="net_interface.0.dns.0.tls" value="yes"/>`, ""},
		{"whole numbers with a fraction", "system s (cpu.count = 1.0 and gpu.count >= 2.00 and soft 3.0 (cpu.count <= 4.0))\ndeploy s 1.0", `
			<match:prefer weight="3">
			<match:require feature="cpu.count" op="le" value="4"/>`, ""},
		{"recipes with groups run again when the nodes change", recipe("a", "- tasks:\n  - debug: msg={{ groups['b'] }}") + recipe("b", "- tasks:\n  - user: name=bob groups=adm") + recipe("c", "- tasks:\n  - include: a.yml") + "system a ()\nsystem b ()\nsystem c ()\ndeploy a 1\ndeploy b 1\ndeploy c 1", `
			<setup:step name="configure a" language="ansible" order="1" again="true">
			<setup:step name="configure b" language="ansible" order="1">
			<setup:step name="configure c" language="ansible" order="1" again="true">`, ""},
		{"a network that is only referred to", "network net\nsystem s (net_interface.0.connection = 'net')\ndeploy s 1", "", "line 1: no document defines network net; write network net () to define it here; without parentheses it is that of an earlier document of the slice (compile --with FILE)"},
		{"a line of cloud-init has no step", recipe("s", "runcmd: [ls]") + "system s ()\ncontextualize (\nsystem s configure s step 2 with cloud_init)\ndeploy s 1", "", "line 8: a line has step 2 with cloud_init, which runs when the node starts, before all steps; leave the step out"},
		{"R28 ansible host", "ansible a (host = 'h.example.org' and credentials.username = 'alice' and credentials.password = 'sesame')\nsystem s (ansible_host = 'a')\ndeploy s 1", `
			<origin:feature name="ansible.a.host" value="h.example.org"/>
			<origin:feature name="ansible.a.credentials.username" value="alice"/>
			no sesame
			<origin:feature name="ansible_host" value="a"/>`, `line 1: ansible "a" is not used, since each node plays its recipes itself; leave it out; to play recipes from a host of yours, use: patchbay export --format ansible`},
		{"R28 one warning for an ansible sentence, whatever it has", "ansible a (host = 'x' and credentials.username = 'u')\nansible b ()\nansible c (credentials.private_key = 'x' and credentials.password = 'y')\nsystem s ()\ndeploy s 1", "<node", "line 1: ansible \"a\" is not used\nline 2: ansible \"b\" is not used\nline 3: ansible \"c\" is not used"},
		{"R30 two kinds of nodes, whose recipes run in two steps", recipe("nodeA", "- tasks: []") + recipe("nodeB", "- tasks: []") + "system nodeA ()\nsystem nodeB ()\ndeploy nodeA 1\ndeploy nodeB 2\ncontextualize 1200 (\nsystem nodeA configure nodeA step 1\nsystem nodeB configure nodeB step 2\n)", `
			<setup:plan deadline="1200"/>
			<node client_id="nodeA-0">
			<setup:step name="configure nodeA" language="ansible" order="1">
			<node client_id="nodeB-1">
			<setup:step name="configure nodeB" language="ansible" order="2">`, ""},
		{"option ansible_version is a constraint on the image", recipe("s", "- tasks: []") + "system s ()\ncontextualize (option ansible_version = '2.14')\ndeploy s 1", `
			<setup:plan ansible="2.14"/>
			<match:require feature="software.ansible" op="ge" value="2.14"/>`, ""},
		{"user:password@ in an address", "system s (disk.0.image.url = 'https://alice:x@example.org/i')\ndeploy s 1", "<disk_image", "line 1: disk.0.image.url has a password in its address"},
		{"a number of an instance", "system s (instance_id = 'i-7')\ndeploy s 1", "<node\nno i-7", "instance_id is ignored"},
		{"empty texts ask for nothing", "system s (instance_type = '' and disk.0.os.flavour = '' and gpu.model = '')\ndeploy s 1", "<node\nno match:require\nno sliver_type", ""},
		{"other features are carried", "system s (disk.0.type = 'ssd' and rg_name = 'g' and instance_tags = 'a=b')\ndeploy s 1", `
			<origin:feature name="disk.0.type" value="ssd"/>
			<origin:feature name="rg_name" value="g"/>
			<origin:feature name="instance_tags" value="a=b"/>`, ""},
		{"weights of soft groups", "system s (soft 0 (cpu.count >= 2) and soft 2000000 (cpu.count >= 4 and instance_type = 'x'))\ndeploy s 1", `
			<match:prefer weight="1000000">
			<match:require feature="cpu.count" op="ge" value="4"/>
			<match:prefer weight="1">`, "soft 0: the weight is read as 1\nsoft 2000000: the weight is read as 1000000\ninstance_type is ignored"},
		{"step that is too high", recipe("s", "- tasks: []") + "system s ()\ncontextualize (system s configure s step 100)\ndeploy s 1", "", "step 100 is too high"},
		{"deadline that is too long", "contextualize 2592001 ()", "", "the plan has a deadline of 2592001 seconds"},
		{"R28 unknown ansible host", "system s (ansible_host = 'b')\ndeploy s 1", "", "ansible b"},
	} {
		t.Run(r.rule, func(t *testing.T) { r.check(t, radl.Options{Site: v}) })
	}
}

func recipe(id, text string) string { return "configure " + id + " (\n@begin\n" + text + "\n@end\n)\n" }

func r2(application string) string {
	return `network net (outbound = 'yes')
system node_ubuntu (
	cpu.arch = 'i686' and net_interface.0.connection = 'net' and net_interface.0.dns_name = 'node-#N#' and
	disk.0.os.name = 'linux' and disk.0.os.flavour = 'ubuntu' and disk.0.os.version >= '12.04' and
	disk.0.applications contains (name = '` + application + `')
)
deploy node_ubuntu 10
`
}

const plan10 = `system server ()
system client ()
configure server (
@begin
- tasks:
  - debug: msg=server
@end
)
configure client (
@begin
- tasks:
  - debug: msg=client
@end
)
configure launch (
@begin
- tasks:
  - debug: msg=launch
@end
)
contextualize 1200 (
	system server configure server step 1
	system client configure client step 1
	system server configure launch step 2
)
deploy server 1
deploy client 2
`

const soft17 = `system s (disk.0.os.name = 'linux' and disk.0.os.flavour = 'ubuntu'
	and soft 100 (cpu.arch = 'x86_64' and cpu.count >= 2 and memory.size >= 1G)
	and soft 101 (disk.0.os.flavour = 'ubuntu' and disk.0.os.version = '12.04')
	and soft 50 (disk.0.os.name = 'windows')
)
deploy s 1
`

const roles25 = `system front (
	disk.0.applications contains (name = 'ansible.collections.community.crypto') and
	disk.0.applications contains (name = 'ansible.roles.http://example.org/role.tgz|bob.db') and
	disk.0.applications contains (name = 'ansible.roles.git+https://example.org/r.git|git-role') and
	disk.0.applications contains (name = 'ansible.modules.bob.ntp,v1.0.0') and
	disk.0.applications contains (name = 'ansible.roles.alice.web')
)
system wn ()
system plain ()
configure wn (
@begin
- roles: [bob.ntp, {role: alice.web, port: 80}]
@end
)
configure front (
@begin
- roles: [git-role]
@end
)
deploy front 1
deploy wn 1
deploy plain 1
`

const json12 = `[
  {"class": "network", "id": "publica", "outbound": "yes"},
  {"class": "system", "id": "wn", "cpu.arch": "x86_64", "cpu.count_min": 1, "memory.size_min": 536870912,
   "net_interface.0.connection": "publica", "disk.0.os.name": "linux", "disk.0.os.credentials.password": "sesame"},
  {"class": "configure", "id": "wn", "recipes": "---\\n- roles:\\n- {role: micafer.hadoop}"},
  {"class": "contextualize", "items": []},
  {"class": "deploy", "system": "wn", "vm_number": 1, "cloud": "cloud_id"}
]`

func TestR9Parameters(t *testing.T) {
	const source = "system node (cpu.count = @input.CPUs@ and memory.size >= 512M)\ndeploy node @input.NumNodes@\n"
	d, problems := radl.Parse([]byte(source), map[string]string{"CPUs": "4", "NumNodes": "3"})
	if d == nil {
		t.Fatal(rspec.Lines(problems))
	}
	r, problems := radl.Compile(d, radl.Options{})
	if r == nil || len(r.Nodes) != 3 || r.Nodes[2].Require[0].String() != "cpu.count = 4" {
		t.Errorf("%v, %v", r, rspec.Lines(problems))
	}
}
