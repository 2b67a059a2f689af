package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/require"
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
