package blueprint

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/require"
	"patchbay/inventory"
	"patchbay/rspec"
)

var update = flag.Bool("update", false, "write the request of testdata/webtier")

const containers = `
components:
  - {name: com.other.Server, extends: WarContainer, abstract: false, form: node}
`

const cache = `  - {name: cache, extends: server, attributes: {size: "1"}, actions: [{name: start the cache, script: "true"}]}
`

var files = fstest.MapFS{
	"hello.war": {Data: []byte("war")}, "i.sh": {Data: []byte("#!/bin/sh\n")}, "a.tgz": {Data: []byte("tgz")}, "s.sql": {Data: []byte("echo schema\n")},
	"key":       {Data: []byte("-----BEGIN RSA PRIVATE KEY-----\n")},
	"large.tgz": {Data: bytes.Repeat([]byte("x"), maxInline+1)}, "huge.tgz": {Data: bytes.Repeat([]byte("x"), maxInPieces+1)},
}

// compileText returns the request, which package rspec must accept, or the problems.
func compileText(t testing.TB, text string, o Options) (string, []rspec.Problem) {
	t.Helper()
	if o.Library == nil {
		l, err := Standard().with([]byte(containers+cache), "more.yaml")
		if err != nil {
			t.Fatal(err)
		}
		o.Library = l
	}
	d, problems := Parse([]byte(text))
	if d == nil {
		return "", problems
	}
	request, more := Compile(d, o)
	if problems = rspec.ByLine(append(problems, more...)); request == nil {
		return "", problems
	}
	written := request.Write()
	r, wrong := rspec.Check(written, rspec.ReadOptions{CheckSchemas: true, CopyCrossLinks: true})
	if r == nil {
		t.Fatalf("%s\nbecomes the request\n%s\nwhich is refused: %s", text, written, rspec.Lines(wrong))
	}
	for _, f := range r.Findings {
		t.Errorf("%s\n%s\n%v", text, written, f)
	}
	return string(written), problems
}

const h1 = `
components:
  my_server:
    type: server
    requires:
      run: my_script
      minRam: 4gb
  my_script: {type: ShellScript, content: "https://example.org/i.sh", sudo: true}
`

const h3 = `
components:
  - {content: hello.war, requires: [{type: WarDeployment}]}
requires: {jurisdiction: us, providers: [%s]}
`

var base64Text = regexp.MustCompile(`[A-Za-z0-9+/=]{12,}`)

func TestCompile(t *testing.T) {
	for _, tt := range []struct{ rule, text, has, hasNot string }{ // has and hasNot separated by |
		{"H1 a server with a script", h1, `client_id="my_server"|feature="memory.size" op="ge" value="4GB"|setup:parameter name="url" value="https://example.org/i.sh"`, `sudo="false"`},
		{"H3 the first container that is allowed", fmt.Sprintf(h3, `"org.*"`), `client_id="org-jetty-Server-0"|feature="location.country" value="US"|setup:step name="copy application WAR-0"|name="file" value="hello.war"`, "com-other"},
		{"names that reach the nodes of a relation", "components:\n  web: {type: server, requires: [{type: database, fulfillment: [my_store, \"012\", Pc, pc]}]}\n  my_store: {type: customDatabase}\n  \"012\": {type: customDatabase}\n  Pc: {type: customDatabase}\n  pc: {type: customDatabase}", `name="database_nodes" value="my_store node-012 pc-2 pc-3"`, ""},
		{"H5 the country is required", "components: {a: {type: server}}\nrequires: {jurisdiction: be}", `feature="location.country" value="BE"`, "disk_image"},
		{"H5 no is Norway", "components: {a: {type: server}}\nrequires: {jurisdiction: no}", `value="NO"`, ""},
		{"H6 a tier", `
components:
  web:
    type: tier
    initialSize: 3
    requires:
      os: rhel
      run: {type: rpm, rpms: [php, php-mysql]}
      unpack: {type: tgz, content: a.tgz, target: /var/html}
      loadbalancer: my_lb
  my_lb: {requires: {dns: myapp.example.com}}
`, `client_id="web-0"|client_id="web-2"|<link client_id="web">|interface_ref client_id="my_lb:0"|value="php php-mysql"|name="target" value="/var/html"|net:dns name="myapp.example.com"|name="members" value="web-0 web-1 web-2"|name="publicPort" value="80"|name="membersPort" value="80"`, `client_id="web-3"`},
		{"H7 one implied database", `
components:
  frontend: {type: server, requires: [{type: database, fulfillment: backend}, {run: {type: ShellScript, content: i.sh}}]}
  schema: {type: Schema, content: s.sql, requires: backend}
`, `component backend: implied|node client_id="backend"|name="load schema" language="sh" order="1"|"run script ShellScript-0" order="2"`, "database-0"},
		{"H8 inference by reference", "components:\n  a: {type: server, requires: {loadbalancer: lb}}\n  lb: {tags: [x, y]}", `type loadbalancer|<origin:feature name="tags" value="x y"/>`, ""},
		{"H12 no components", "components: []", "origin:source", "<node"},
		{"nodespec", "components: {t: {type: tier, initialSize: 2, nodespec: {type: raw-pc, requires: {minRam: 1g}}}}", `sliver_type name="raw-pc"|value="1G"|client_id="t-1"`, ""},
		{"a tier of Jetty servers with a balancer", `
components:
  calc: {type: tier, initialSize: 2, nodespec: {type: org.jetty.Server}, requires: {loadbalancer: {fulfillment: entry}}}
  app: {type: WAR, content: hello.war, requires: calc}
  entry: {type: loadbalancer}
requires: {providers: [org.jetty]}
`, `client_id="calc-1"|<link client_id="calc">|name="install Jetty calc"|name="start Jetty calc"|name="copy application app"|name="membersPort" value="8080"|name="members" value="calc-0 calc-1"`, `client_id="calc-2"|client_id="app"`},
		{"a nodespec of a site's own type", "components: {t: {type: tier, initialSize: 2, nodespec: {type: cache, size: 3}}}", `client_id="t-1"|name="start the cache t"|name="size" value="3"`, ""},
		{"a subnet", "components: {a: {type: server, requires: {subnet: net}}, net: {type: subnet}}", `<link client_id="net">|interface_ref client_id="a:0"`, "net-net"},
		{"a component by URN", "components: {a: {type: server, requires: {database: 'urn:publicid:IDN+example.org+node+db1'}}}", `client_id="db1" component_id="urn:publicid:IDN+example.org+node+db1"`, ""},
		{"a larger file in pieces", "components: {a: {type: server, requires: {unpack: {type: tgz, content: large.tgz}}}}", `<setup:file path="content.00">eHh4|<setup:file path="content.01">eA==<`, `path="content"`},
		{"a private key stays", "components: {a: {type: server, requires: {run: {type: ShellScript, content: key}}}}", `client_id="a"`, "setup:step"},
		{"the name of a step does not repeat that of the component", "components: {cache: {type: cache}, database: {type: database}, db: {type: database}}", `name="start the cache"|name="install database"|name="install database db"`, "cache cache"},
		{"attributes of the node are no variables", "components: {a: {type: cache, image: x, sliver_type: ''}}", `setup:parameter name="size"`, `parameter name="sliver_type"|parameter name="image"|parameter name="hardware_type"`},
		{"a script in place of the name of a file", "components:\n  a: {type: server, requires: {run: s}}\n  s:\n    type: ShellScript\n    content: |\n      apt-get update\n      true\n", `apt-get update`, "content.00"},
		{"a script of one line", "components: {a: {type: server, requires: {run: {type: ShellScript, content: '#!/bin/sh'}}}}", `#!/bin/sh`, ""},
		{"all attributes of a script are its variables", "components: {a: {type: server, requires: {run: {type: ShellScript, content: i.sh, port: 80, db.name: x, sudo: no, PATH: /x}}}}", `setup:parameter name="sudo" value="no"|setup:parameter name="port" value="80"|name="db.name" value="x"`, `"PATH"`},
		{"a schema is a script or SQL", "components: {s: {type: Schema, content: s.sql, requires: d}, d: {type: database}}", `sqlite3 /var/lib/database/main.db|exec ./content`, ""},
		{"names of types as the proposal prints them", `
components:
  hello_war: {content: hello.war, requires: {com.example.java:WarDeploymentRequirement: {fulfillment: frontend}}}
  hello_sql: {content: s.sql, type: com.example.database:Schema, requires: backend}
  frontend: {requires: {database: backend, com.example.lb:LoadBalanced: lb, run: {type: com.example.script.ShellScript, content: i.sh}}}
requires: {providers: [com.example.*, org.jetty.*]}
`, `name="install Jetty frontend"|name="copy application hello_war"|name="load schema hello_sql"|node client_id="backend"|node client_id="lb"`, ""},
		{"a balancer passes connections on to the port of the container", "components: {a: {type: org.jetty.Server, requires: {LoadBalanced: lb}}, lb: {type: loadbalancer}}", `name="membersPort" value="8080"|name="publicPort" value="80"`, `name="membersPort" value="80"`},
		{"the port of a relation wins", "components: {a: {type: org.jetty.Server, requires: {LoadBalanced: {fulfillment: lb, membersPort: 81}}}, lb: {type: loadbalancer}}", `name="membersPort" value="81"`, ""},
		{"os is the name of a system or a flavour", "components: {a: {type: server, requires: {os: Linux}}, b: {type: server, requires: {os: debian}}}", `feature="disk.0.os.name" value="Linux"|feature="disk.0.os.flavour" value="debian"`, ""},
		{"a repository without a .repo file", "components: {a: {type: server, requires: {run: {type: rpm, rpms: [php], repos: ['http://rpms.example.org/repo/']}}}}", `name="repos" value="http://rpms.example.org/repo/"|baseurl=%s`, ""},
		{"unknown attributes and names", "name: x\ncomponents: {a: {type: server, color: red}}\nmore: 1", `origin:feature name="name" value="x"|name="color" value="red"|name="more" value="1"`, ""},
	} {
		got, problems := compileText(t, tt.text, Options{Files: files})
		for _, body := range base64Text.FindAllString(got, -1) {
			script, _ := base64.StdEncoding.DecodeString(body) // fails for other texts
			got += string(script)
		}
		for _, want := range strings.Split(tt.has, "|") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the request lacks %s; %s\n%s", tt.rule, want, rspec.Lines(problems), got)
			}
		}
		for _, not := range strings.Split(tt.hasNot, "|") {
			if not != "" && strings.Contains(got, not) {
				t.Errorf("%s: the request has %s\n%s", tt.rule, not, got)
			}
		}
	}
}

func TestEqualForms(t *testing.T) {
	const targets = "components:\n  a: {type: server, requires: {run: %s}}\n  x: {type: ShellScript, content: i.sh}\n  y: {type: ShellScript, content: i.sh}\n"
	for _, tt := range []struct {
		rule  string
		texts []string
	}{
		{"H2 JSON and lists", []string{h1, `{"components": [{"id": "my_server", "type": "server", "requires": [{"type": "run", "fulfillment": "id:my_script"}, {"type": "minRam", "value": "4gb"}]}, {"id": "my_script", "type": "ShellScript", "content": "https://example.org/i.sh", "sudo": true}]}`}},
		{"H9 references", []string{fmt.Sprintf(targets, "[x, 'id:y']"), fmt.Sprintf(targets, "[id:x, y]"), fmt.Sprintf(targets, "{fulfillment: [x, y]}")}},
		{"H13 values", []string{"components: {a: {type: server, requires: {minRam: {value: 4gb}}}}", "components: {a: {type: server, requires: {minRam: 4gb}}}", "components: {a: {type: server, requires: [{type: minRam, value: 4gb}]}}", "components: {a: {type: server, requires: [minRam: 4gb]}}"}},
	} {
		want, problems := compileText(t, tt.texts[0], Options{Files: files})
		if want == "" {
			t.Errorf("%s: %s", tt.rule, rspec.Lines(problems))
		}
		for _, text := range tt.texts[1:] {
			if got, problems := compileText(t, text, Options{Files: files}); got != want {
				t.Errorf("%s: %s\n%s\ninstead of\n%s", tt.rule, rspec.Lines(problems), got, want)
			}
		}
	}
}

// TestUnused requires that nothing of a blueprint is left out in silence.
func TestUnused(t *testing.T) {
	const balanced = "components:\n  web: {type: server, requires: {LoadBalanced: {fulfillment: lb, %s}}}\n  lb: {tags: [x], image: debian-12}\n"
	for _, tt := range []struct{ rule, text, want string }{ // want is separated by |, and empty for no warning
		{"an attribute that the balancer cannot honor", fmt.Sprintf(balanced, "protocol: https"), `line 2: protocol: "https" has no effect: the requirement LoadBalanced does only tcp; expect tcp`},
		{"several attributes", fmt.Sprintf(balanced, "\n    algorithm: least,\n    sticky-sessions: true"), `line 3: algorithm: "least" has no effect: the requirement LoadBalanced does only round-robin; expect round-robin|line 4: sticky-sessions: "true" has no effect: the requirement LoadBalanced does only false; expect false`},
		{"the same of the other name", "components: {a: {type: server, requires: {loadbalancer: {fulfillment: b, algorithm: round-robin, sticky-sessions: true}}}, b: {type: loadbalancer}}", `line 1: sticky-sessions: "true" has no effect: the requirement loadbalancer does only false; expect false`},
		{"values that are honored", fmt.Sprintf(balanced, "protocol: tcp, algorithm: round-robin, sticky-sessions: false, publicPort: 81, membersPort: 80"), ""},
		{"an attribute of a relation", "components:\n  a:\n    type: server\n    requires:\n      database: {fulfillment: b, mode: CDI}\n  b: {type: database}\n", `line 5: the requirement database has no attribute "mode", so it has no effect; remove it`},
		{"an attribute of a constraint", "components: {a: {type: server, requires: {minRam: {value: 1g, valeu: 2}}}}", `line 1: the requirement minRam has no attribute "valeu", so it has no effect; did you mean "value"?`},
		{"an attribute of a setup", "components: {a: {type: server, requires: {run: {fulfillment: s, as: root}}}, s: {type: ShellScript, content: i.sh}}", `line 1: the requirement run has no attribute "as", so it has no effect; remove it`},
		{"a host name beside a component", "components: {a: {type: server, requires: {dns: {hostname: a.example.org, fulfillment: b}}}, b: {type: server}}", `line 1: the requirement dns has no attribute "hostname", so it has no effect; remove it`},
		{"a policy at the top", "components: []\njurisdiction: us\nproviders: ['org.*']\n", `line 2: the key "jurisdiction" has no effect here; write it below requires:|line 3: the key "providers" has no effect here; write it below requires:`},
		{"another key at the top", "components: []\nversion: 1\ndescription: x\ntags: [x]\n", `line 2: the key "version" has no effect here; remove it; it is only copied to the manifest`},
		{"an attribute of a policy", "components: []\nrequires: {jurisdiction: {iso3166: us, region: east}}", `line 2: the requirement jurisdiction has no attribute "region", so it has no effect; remove it`},
		{"a misspelled attribute", "components: {a: {type: tier, initalSize: 3}}", `line 1: the type tier has no attribute "initalSize", so it has no effect; did you mean "initialSize"?`},
		{"a requirement in place of an attribute", "components: {a: {type: server, minRam: 4gb}}", `line 1: the type server has no attribute "minRam", so it has no effect; write it below requires:`},
		{"attributes of a nodespec", "components: {a: {type: tier, nodespec: {type: vm, image: x, color: red}}}", `line 1: the type vm has no attribute "color", so it has no effect; remove it`},
		{"attributes of an archive", "components: {a: {type: server, requires: {unpack: {type: tgz, content: i.sh, user: root}}}}", `line 1: the type tgz has no attribute "user", so it has no effect; remove it`},
		{"attributes of a script", "components: {a: {type: server, requires: {run: {type: ShellScript, content: i.sh, port: 80}}}}", ""},
		{"attributes of a script that cannot be variables", "components: {a: {type: server, requires: {run: {type: ShellScript, content: i.sh, PATH: /x}}}}", `line 1: the attribute "PATH" is no variable of the script: the parameter "PATH" would replace the variable PATH, which the step has anyway; rename it`},
		{"a tier without nodes", "components:\n  a:\n    type: tier\n    initialSize: 0\n", `line 4: the initialSize of "a" is 0, so it has no nodes, and its requirements have no effect; write at least 1 to get nodes`},
		{"documentation", "name: x\ncomponents: {a: {type: server, description: x, tags: [x]}, s: {type: ShellScript, content: i.sh, description: x, requires: a}}", ""},
		{"attributes of a site's own type", "components: {a: {type: cache, size: 2}}", ""},
	} {
		got, problems := compileText(t, tt.text, Options{Files: files})
		if all := strings.Join(rspec.Lines(problems), "|"); got == "" || all != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.rule, all, tt.want)
		}
	}
}

// TestAllMistakes requires that all mistakes are reported at once, and nothing that is only their
// consequence.
func TestAllMistakes(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{ // lines of the mistakes
		{"in each part of the compilation", `
components:
  a: {type: servr}
  b: {type: server, requires: {minRan: 4gb}}
  c: {type: server, requires: {minRam: much}}
  d: {type: server, requires: {run: {type: ShellScript, content: none.sh}}}
  e: {type: server, requires: {dns: 'a b'}}
  f: {type: tier, initialSize: two}
  g: {type: server, requires: {database: h}}
  h: {type: database, requires: {run: i}}
  i: {type: ShellScript, content: i.sh, requires: {host: g}}
  j: {type: server, requires: {run: {type: ShellScript, content: missing.sh}}}
requires: {jurisdiction: usa, providers: ['[']}
`, "3 4 5 6 7 8 9 12 13 13"},
		{"in the reading", "components:\n  a: {id: b, type: server}\n  c: {type: server, type: vm}\n  d: {type: servr}\n", "2 3 4"},
		{"what only a mistake refers to", "components:\n  a: {type: server, requires: {loadbalancr: lb}}\n  lb: {}\n  s: {type: ShellScript, content: i.sh}\n", "2"},
		{"what an unreadable component may refer to", "components:\n  a: {id: b, requires: {loadbalancer: lb}}\n  lb: {}\n", "2"},
		{"what requires a component of an unknown type", "components:\n  a: {type: server, requires: {database: d}}\n  d: {type: databse}\n", "3"},
	} {
		got, problems := compileText(t, tt.text, Options{Files: files})
		var lines []string
		for _, p := range problems {
			lines = append(lines, fmt.Sprint(p.Line))
		}
		if got != "" || strings.Join(lines, " ") != tt.want {
			t.Errorf("%s: mistakes in lines %v, want %s\n%s", tt.rule, lines, tt.want, strings.Join(rspec.Lines(problems), "\n"))
		}
	}
}

// TestAllowedImages checks which image of a site providers.allow leaves to a node.
func TestAllowedImages(t *testing.T) {
	for _, tt := range []struct{ rule, images, server, want string }{
		{"the default image is allowed", "[org.x.rocky, debian-12.5]", "", "no disk_image"},
		{"a name without a provider is allowed", "[debian-12.5]", "", "no disk_image"},
		{"another image than the default one", "[com.x.rocky, debian-12.5]", "", `<disk_image name="debian-12.5"/>`},
		{"by a constraint", "[com.x.rocky, ubuntu-22.04]", ", requires: {os: debian}", `<disk_image name="ubuntu-22.04"/>`},
		{"none", "[com.x.rocky]", "", `providers.allow excludes the image "com.x.rocky", which "a" would get`},
		{"the image by its URN", "[com.x.rocky]", ", image: 'urn:publicid:IDN+example.org+image+com.x.rocky'", `providers.allow excludes the image "urn:publicid:IDN+example.org+image+com.x.rocky"`},
	} {
		var images []string
		for _, name := range strings.Split(strings.Trim(tt.images, "[]"), ", ") {
			images = append(images, "{name: "+name+", os: Linux, capabilities: {disk.0.os.flavour: debian}}")
		}
		first, _, _ := strings.Cut(strings.Trim(tt.images, "[]"), ",")
		site, err := inventory.Parse([]byte("provider: local\ndefault_sliver_type: vm\nsliver_types: [{name: vm, images: "+tt.images+", default_image: "+first+", needs: {slots: 1}}]\nimages: ["+strings.Join(images, ", ")+"]\n"+
			"components: [{name: host, exclusive: false, sliver_types: [vm], capacity: {slots: 9}}]\n"), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		got, problems := compileText(t, "components: {a: {type: server"+tt.server+"}}\nrequires: {providers: ['org.*']}\n", Options{Site: site})
		all := got + strings.Join(rspec.Lines(problems), "\n")
		if not, isNot := strings.CutPrefix(tt.want, "no "); isNot && (got == "" || strings.Contains(all, not)) || !isNot && !strings.Contains(all, tt.want) {
			t.Errorf("%s: want %s\n%s", tt.rule, tt.want, all)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	server := func(requires string) string { return "components: {a: {type: server, requires: " + requires + "}}" }
	balancedPort := func(requirement, port string) string {
		return "components:\n  a: {type: server, requires: {" + requirement + ": {fulfillment: b,\n    " + port + "}}}\n  b: {type: loadbalancer}\n"
	}
	for _, tt := range []struct{ rule, text, want string }{
		{"H4 no container is allowed", fmt.Sprintf(h3, `"org.openstack.*"`), "WarDeployment in line 3 refers to it and needs war-container; providers.allow excludes org.jetty.Server, com.other.Server"},
		{"H9 an explicit reference to nothing", server("{run: 'id:z'}"), `there is no component "z"`},
		{"H10 two inferences", "components:\n  s: {type: ShellScript, content: i.sh, requires: {host: x}}\n  a: {type: server, requires: {database: x}}", "host in line 2 refers to it and needs compute; database in line 3 refers to it and needs database"},
		{"H11 no default requirement", server("backend"), "names no requirement, and there is no default one"},
		{"H11 the name of a requirement in place of a value", server("[database]"), `the value "database" names no requirement, and there is no default one; write {type: database}`},
		{"a script that is no name of a file", server("{run: {type: ShellScript, content: apt-get install -y nginx}}"), `there is no file "apt-get install -y nginx"; correct the name, which is relative to the blueprint; a script itself begins with #!/bin/sh`},
		{"a text in place of an archive", server(`{unpack: {type: tgz, content: "a\nb"}}`), `the content of "tgz-0" is a text in place of the name of a file`},
		{"a file that is missing", server("{run: {type: ShellScript, content: no.sh}}"), `there is no file "no.sh"; correct the name`},
		{"no DNS name", server("{dns: 'a b'}"), `the requirement "dns": "a b" is not a DNS name`},
		{"H12 components is missing", "name: x", "the blueprint has no components"},
		{"H12 an unknown requirement", server("{minRan: 4gb}"), `did you mean "minRam"?`},
		{"H12 an id twice", "components: [{id: a, type: server}, {id: a, type: server}]", "is also in line 1"},
		{"a key twice", "components: {}\ncomponents: {}", "line 2: the key \"components\" is also in line 1"},
		{"id and key differ", "components: {a: {id: b, type: server}}", `the component "a" has the id "b"`},
		{"H14 above the folder", server("{run: {type: ShellScript, content: ../x}}"), `the content "../x" is neither`},
		{"H15 a cycle", "components:\n  a: {type: server, requires: {database: b}}\n  b: {type: database, requires: {run: c}}\n  c: {type: ShellScript, content: i.sh, requires: {host: a}}\n", "a -> b -> c -> a"},
		{"H16 an unknown type", "components: {a: {type: 'AWS::EC2::Instance'}}", "concrete types of server are vm, raw-pc"},
		{"a component in place of a requirement", server("[{type: ShellScript, content: \"#!/bin/sh\"}]"), `the requirement type "ShellScript" is unknown; it is a type of components: write run: {type: ShellScript, …}`},
		{"requirements under another name", "components: {a: {type: server, requirements: {minRam: 1g}}}", `the key "requirements" of a component is unknown; write requires`},
		{"a type of neither kind", server("{run: {type: what}}"), `the type "what" is unknown; component types are server`},
		{"several keys without a type", server("[{a: 1, b: 2}]"), "has no type"},
		{"a large file", server("{unpack: {type: tgz, content: huge.tgz}}"), "has 1048577 bytes, more than the 1048576 that travel in a request; use the options --content DIR and --content-url URL"},
		{"no YAML", "components: [", "line 1: at or after line 1 this is not YAML"},
		{"CAMP is another language", "camp_version: CAMP 1.1\nartifacts: []\n", "the blueprint has no components"},
		{"aliases", "x: &a [1,1,1,1,1,1,1,1,1,1]\ny: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nz: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nw: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nv: [*d,*d,*d]\n", "more than 20000 values"},
		{"deep nesting", "components: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "more than 40 inside each other"},
		{"long texts by aliases", "a: &a " + strings.Repeat("x", 30<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\ncomponents: []\n", "bytes of text"},
		{"an image that is not allowed", "components: {a: {type: server, image: org.x.debian}}\nrequires: {providers: ['org.y.*']}", `providers.allow excludes the image "org.x.debian" of the component "a"`},
		{"warnings do not hide mistakes", "components: [" + strings.Repeat("{type: ShellScript, content: i.sh}, ", 150) + "{type: server, requires: {run: {type: ShellScript, content: none.sh}}}]", `there is no file "none.sh"`},
		{"too many patterns", "components: []\nrequires: {providers: [" + strings.Repeat("a,", 101) + "]}", "allow has more than 100 patterns"},
		{"a requirement that the type does not know", "components: {a: {type: database, requires: {os: debian, loadbalancer: b}}}", `type database does not fit the component "a": it requires loadbalancer in line 1; give each part`},
		{"a type in place that does not offer what is needed", "components: {a: {type: tier, requires: {loadbalancer: {type: server}}}}", "type server does not fit the component in line 1: loadbalancer in line 1 refers to it and needs loadbalancer; give each part"},
		{"a tier on a host of another type", "components: {a: {type: tier, requires: {host: {type: org.jetty.Server}}}}", "host in line 1 refers to it and needs compute; the type of the nodes of a tier is in its nodespec: {type: org.jetty.Server}"},
		{"a nodespec that is no node", "components: {a: {type: tier, nodespec: {type: subnet}}}", `the nodespec has the type "subnet"; use server or another type of a node`},
		{"a nodespec of a provider that is not allowed", "components: {a: {type: tier, nodespec: {type: org.jetty.Server}}}\nrequires: {providers: [com.*]}", "providers.allow excludes org.jetty.Server"},
		{"a public port above the largest", "components:\n  a:\n    type: server\n    requires:\n      loadbalancer:\n        fulfillment: b\n        publicPort: 65536\n  b: {type: loadbalancer}", `line 7: the publicPort of the requirement loadbalancer is "65536"; write a number from 1 to 65535`},
		{"a port 0", balancedPort("LoadBalanced", "membersPort: 0"), `line 3: the membersPort of the requirement LoadBalanced is "0"; write a number from 1 to 65535`},
		{"a port by name", balancedPort("loadbalancer", "publicPort: http"), `line 3: the publicPort of the requirement loadbalancer is "http"; write a number`},
		{"a port with a sign", balancedPort("loadbalancer", "publicPort: -80"), `is "-80"; write a number`},
		{"a port with a zero before it", balancedPort("loadbalancer", "publicPort: 080"), `is "080"; write a number`},
		{"a port with a fraction", balancedPort("loadbalancer", "publicPort: 80.0"), `is "80.0"; write a number`},
		{"two ports", balancedPort("loadbalancer", "publicPort: [80, 443]"), `is "80 443"; write a number`},
		{"a port without a value", balancedPort("loadbalancer", "publicPort: "), `is ""; write a number`},
		{"a port of a container", "components:\n  a:\n    type: org.jetty.Server\n    membersPort: jetty\n    requires: {LoadBalanced: b}\n  b: {type: loadbalancer}", `line 4: the membersPort of the requirement LoadBalanced is "jetty"; write a number`},
		{"a port of a tier without nodes", "components: {a: {type: tier, initialSize: 0, requires: {loadbalancer: {fulfillment: b, publicPort: 0}}}, b: {type: loadbalancer}}", `the publicPort of the requirement loadbalancer is "0"`},
		{"too many nodes", "components: {a: {type: tier, initialSize: 2001}}", "more than 2000 nodes"},
	} {
		got, problems := compileText(t, tt.text, Options{Files: files})
		if all := strings.Join(rspec.Lines(problems), "\n"); got != "" || !strings.Contains(all, tt.want) {
			t.Errorf("%s: %s, want %s", tt.rule, all, tt.want)
		}
	}
}

func pack(t *testing.T, names ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		text := "#!/bin/sh\n"
		if name == mainFile {
			text = "components: {a: {type: server, requires: {run: {type: ShellScript, content: my_install.sh}}}}"
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPackages(t *testing.T) {
	if got, problems := compileText(t, pack(t, mainFile, "my_install.sh"), Options{}); !strings.Contains(got, "run script") {
		t.Errorf("H14: %s\n%s", rspec.Lines(problems), got)
	}
	for _, tt := range []struct{ rule, text, want string }{
		{"H14 no heat.yaml", pack(t, "x/heat.yaml"), "no heat.yaml at its top"},
		{"H14 a name above", pack(t, mainFile, "../x"), `the name "../x"`},
		{"an absolute name", pack(t, mainFile, "/x"), `the name "/x"`},
		{"a broken package", zipSignature, "no valid ZIP file"},
		{"a missing file", pack(t, mainFile), `there is no file "my_install.sh"`},
	} {
		if got, problems := compileText(t, tt.text, Options{}); got != "" || !strings.Contains(strings.Join(rspec.Lines(problems), " "), tt.want) {
			t.Errorf("%s: %s", tt.rule, rspec.Lines(problems))
		}
	}
}

func TestLargeContentIsPublished(t *testing.T) {
	dir := t.TempDir()
	got, problems := compileText(t, "components: {a: {type: server, requires: {unpack: {type: tgz, content: large.tgz}}}}", Options{Files: files, ContentDir: dir, ContentURL: "https://example.org/c/"})
	written, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(written) != 1 {
		t.Fatal(err, written, rspec.Lines(problems))
	}
	digest := filepath.Base(written[0])
	if len(digest) != 64 || !strings.Contains(got, "https://example.org/c/"+digest) || !strings.Contains(got, `name="sha256" value="`+digest) {
		t.Error(got)
	}
	again := func() string {
		_, problems := compileText(t, "components: {a: {type: server, requires: {unpack: {type: tgz, content: large.tgz}}}}", Options{Files: files, ContentDir: dir, ContentURL: "https://example.org/c/"})
		return strings.Join(rspec.Lines(problems), "; ")
	}
	if problems := again(); problems != "" {
		t.Errorf("the file exists already: %s", problems)
	}
	target := filepath.Join(t.TempDir(), "target")
	for _, tt := range []struct {
		rule string
		make func() error
		want string
	}{
		{"a link to nothing", func() error { return os.Symlink(target, written[0]) }, "is no regular file; remove it"},
		{"a link to a file", func() error {
			return errors.Join(os.WriteFile(target, []byte("x"), 0o600), os.Symlink(target, written[0]))
		}, "is no regular file; remove it"},
		{"another file", func() error { return os.WriteFile(written[0], []byte("x"), 0o600) }, "has another content than its name says; remove it"},
	} {
		if err := errors.Join(os.Remove(written[0]), tt.make()); err != nil {
			t.Fatal(err)
		}
		if problems := again(); !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q", tt.rule, problems)
		}
		if b, err := os.ReadFile(target); err == nil && string(b) != "x" {
			t.Errorf("%s: the target of the link has changed", tt.rule)
		}
	}
}

func TestWebTier(t *testing.T) {
	text, err := os.ReadFile("testdata/webtier/heat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	site, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	got, problems := compileText(t, string(text), Options{Files: os.DirFS("testdata/webtier"), Site: site})
	const golden = "testdata/webtier/request.xml"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", rspec.Lines(problems), d)
	}
}

// TestCorpus has the outcome of each file.
func TestCorpus(t *testing.T) {
	text, err := os.ReadFile(require.Shared(t, "corpus", "camp", "camp-1.1-spec-example-rpm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if IsBlueprint(text) {
		t.Error("a CAMP plan is accepted as a blueprint")
	}
	if d, problems := Parse(text); d != nil || len(problems) != 1 || problems[0].Msg != "the blueprint has no components" {
		t.Error(rspec.Lines(problems))
	}
}

func TestExistingNames(t *testing.T) {
	_, problems := compileText(t, "components: {a: {type: server}}", Options{Nodes: []string{"a"}})
	if len(problems) != 1 || problems[0].Msg != `the name "a" is already in use` {
		t.Error(rspec.Lines(problems))
	}
}

func TestIsBlueprint(t *testing.T) {
	for text, want := range map[string]bool{h1: true, `{"components": []}`: true, zipSignature: true, "network net ()": false, "<rspec/>": false} {
		if IsBlueprint([]byte(text)) != want {
			t.Errorf("%.20q: not %v", text, want)
		}
	}
}

func TestLibrary(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"correct", containers, ""},
		{"a type that extends nothing", "components:\n  - {name: a, extends: servr}", `l.yaml:2: component type "a" extends "servr"`},
		{"an unknown requirement", "components:\n  - {name: a, form: node, requirements: [minRan]}", `did you mean "minRam"?`},
		{"no effect", "requirements:\n  - {name: a}", "has no effect"},
		{"a known name", "components:\n  - {name: server}", "exists already"},
		{"a known alias", "components:\n  - {name: com.example.script:ShellScript, form: node}", "exists already"},
		{"an alias of a known name", "requirements:\n  - {name: a, aliases: [os], effect: policy}", "exists already"},
		{"an unknown key", "components:\n  - {name: a, fomr: node}", `did you mean "form"?`},
	} {
		got := ""
		if _, err := Standard().with([]byte(tt.text), "l.yaml"); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %s", tt.rule, got)
		}
	}
	const want = "component com.other.Server (node): a node that runs WARs; extends WarContainer; offers war-container; knows the requirements minRam, os, run, unpack, database, loadbalancer, LoadBalanced, dns, subnet"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(containers), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := LoadLibrary(dir)
	if err != nil || l.component("com.other:Server") == nil {
		t.Fatal(err)
	}
	if got := l.Describe(); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{h1, h3, "components: []", containers, "components: {a: {type: tier, initialSize: 3, requires: {loadbalancer: b}}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 64<<10 {
			compileText(t, text, Options{Files: files})
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	long := strings.Repeat("x", 80)
	for name, text := range map[string]string{
		"hostile references": "a: &a 'id:" + long + "'\ncomponents:\n" + strings.Repeat("- {type: server, id: y"+long[2:]+"}\n", 1) + strings.Repeat("- {type: server, requires: {run: ["+strings.Repeat("*a,", 100)+"]}}\n", 150),
		"hostile hosts":      "r: &r [host: x, host: x, database: x, database: x, database: x]\ncomponents:\n" + strings.Repeat("- {requires: *r}\n", 900),
		"hostile texts":      "a: &a " + strings.Repeat("x", 30<<10) + "\nb: [" + strings.Repeat("*a,", 10000) + "]\ncomponents: []\n",
		"tier of 1000":       "components: {a: {type: tier, initialSize: 1000, requires: {minRam: 1g, run: {type: ShellScript, content: i.sh}}}}",
		"hostile lists":      "components: " + strings.Repeat("[", 32<<10) + strings.Repeat("]", 32<<10),
		"hostile tiers":      "components:\n" + strings.Repeat("- {type: tier, initialSize: 2000, requires: {database: x}}\n", 1000),
		"hostile chains":     "components:\n" + strings.Repeat("- {type: server, requires: [{database: y}, {loadbalancer: x}]}\n", 1000),
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if d, _ := Parse([]byte(text)); d != nil {
					Compile(d, Options{Files: files})
				}
			}
		})
	}
}
