package main

import (
	"archive/zip"
	"bytes"
	"testing"
	"testing/fstest"

	"patchbay/am/testkit/require"
	"patchbay/rspec/compile"
)

// page is a script that serves a text by HTTP at port 80: its node, the files of an archive, and the
// address of its database.
const page = `#!/usr/bin/perl
mkdir '/srv/files';
$text = "$ENV{NODE_CLIENT_ID} " . qx{cat /srv/files/*; [ -z "\$database_nodes" ] || getent hosts \$database_nodes};
open $f, '>', '/srv/files/index.html'; print $f $text; close $f;
` + fileServer

// TestOnHostBlueprint compiles blueprints for a new site with real nodes: the kinds of examples that
// the proposal prints, with files in place of URLs. Their services answer by HTTP.
func TestOnHostBlueprint(t *testing.T) {
	const jetty = "/usr/share/jetty9/bin/jetty.sh"
	war := zipOf(t, map[string]string{"index.txt": "a web application\n", "WEB-INF/web.xml": `<web-app xmlns="http://xmlns.jcp.org/xml/ns/javaee" version="3.1"></web-app>`})
	tier := `
name: elastic app
components:
  my_tier:
    type: tier
    initialSize: 2
    nodespec:
      type: server
      requires:
        os: debian
        unpack: {type: tgz, content: my_app.tgz, target: /srv/files}
        run: {type: ShellScript, content: page}
    requires:
      loadbalancer: {publicPort: 8080, membersPort: 80, fulfillment: id:my_lb}
  my_lb: {requires: {dns: {hostname: myapp.example.com}}}
`
	files := map[string]string{"page": page, "my_app.tgz": string(tarOf(t, tarEntry{name: "a", mode: 0o644, text: "from the archive\n"})), "hello.war": war,
		"hello.sql": "CREATE TABLE greetings (text VARCHAR(20)); INSERT INTO greetings VALUES ('hello');\n"}
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	delete(files, "hello.war")
	files["heat.yaml"] = tier

	type look struct{ node, command, want string }
	tests := []struct {
		rule, slice, tool, text string
		looks                   []look
	}{
		{"a server with a script", "script", "", `
components:
  my_server: {type: server, requires: {run: my_script, minRam: 1gb}}
  my_script: {type: com.example.script.ShellScript, content: page, sudo: true}
`, []look{{"my_server", "curl -sf localhost/index.html", "my_server "}}},
		{"the same as JSON", "json", "", `{"components": [
  {"id": "my_server", "type": "server", "requires": [{"minRam": "1gb"}, {"run": "my_script"}]},
  {"id": "my_script", "type": "com.example.script.ShellScript", "content": "page", "sudo": true}]}`,
			[]look{{"my_server", "curl -sf localhost/index.html", "my_server "}}},
		{"a tier with a balancer", "tier", "", tier, []look{
			{"my_lb", "for i in 1 2; do curl -sf localhost:8080/index.html; done; hostname", "my_tier-0 from the archive\nmy_tier-1 from the archive\nmyapp\n"}}},
		{"a package with a balancer", "package", "", zipOf(t, files), []look{
			{"my_lb", "curl -sf localhost:8080/index.html", "my_tier-0 from the archive\n"}}},
		{"names with underscores reach a database", "names", "", `
components:
  my_web: {type: server, requires: {database: my_store, run: {type: ShellScript, content: page}}}
  my_store: {type: customDatabase}
`, []look{{"my_web", "set $(curl -sf localhost/index.html); echo $1 $2", "my_web 10.128.0.1\n"}}},
		{"two components share a port of a balancer", "share", "", `
components:
  one: &web {type: server, requires: {run: {type: ShellScript, content: page}, loadbalancer: {fulfillment: lb, publicPort: 8080}}}
  two: *web
  lb: {type: loadbalancer}
`, []look{{"lb", "for i in 1 2; do curl -sf localhost:8080/index.html; echo; done", "one \ntwo \n"}}},
		{"an application in a container", "war", jetty, `
components:
- content: hello.war
  requires:
  - type: com.example.java:WarDeploymentRequirement
requires:
  providers: {allow: [com.example.*, org.jetty.*, org.openstack.*]}
`, []look{{"org-jetty-Server-0", "curl -sf --retry 20 --retry-all-errors --retry-delay 1 localhost:8080/hello/index.txt", "a web application\n"}}},
		{"an application with a database and a balancer", "camp", jetty, `
components:
  hello_war:
    content: hello.war
    requires: {com.example.java:WarDeploymentRequirement: {fulfillment: frontend}}
  hello_sql:
    content: hello.sql
    type: com.example.database:Schema
    requires: backend
  frontend:
    requires:
      database: {fulfillment: backend}
      com.example.lb:LoadBalanced: {algorithm: round-robin, fulfillment: lb}
  lb: {tags: [load-balancer]}
`, []look{
			{"lb", "curl -sf --retry 20 --retry-all-errors --retry-delay 1 localhost/hello/index.txt", "a web application\n"},
			{"backend", `query='SELECT * FROM greetings'; sudo sqlite3 /var/lib/database/main.db "$query" 2>/dev/null || sudo -u postgres psql -Atc "$query"`, "hello\n"}}},
	}
	var names []string
	for _, tt := range tests {
		names = append(names, tt.slice)
	}
	s := newSetupSite(t, names...)
	offer := s.offer(t)
	offer.Files = folder
	for _, tt := range tests { // Jetty serves an application some time after the step that copies it
		t.Run(tt.slice, func(t *testing.T) {
			t.Parallel()
			if tt.tool != "" {
				require.Tool(t, tt.tool)
			}
			r, err := compile.Compile([]byte(tt.text), offer)
			if err != nil {
				t.Fatal(err)
			}
			x := s.slice(t, tt.slice)
			x.create(string(r.Request))
			x.awaitSetUp()
			doors := x.logins()
			for _, l := range tt.looks {
				if got := x.run(doors[l.node], l.command); got != l.want {
					t.Errorf("%s: %s answers %q to %s, want %q", tt.rule, l.node, got, l.command, l.want)
				}
			}
			x.delete()
		})
	}
}

func zipOf(t testing.TB, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
