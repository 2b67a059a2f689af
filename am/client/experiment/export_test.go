package experiment

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// exampleManifest has two workers on a link, a node without a login, and one with hostile names.
const exampleManifest = `<rspec type="manifest" xmlns="http://www.geni.net/resources/rspec/3" xmlns:o="http://patchbay.example.org/rspec/ext/origin/1" xmlns:p="http://jfed.iminds.be/proxy/1.0" expires="2026-12-24T18:00:00Z">
<o:feature name="ansible.main.host" value="198.51.100.9"/><o:feature name="ansible.main.credentials.username" value="u"/><o:feature name="ansible.other.host" value="{{ lookup('pipe', 'id') }}"/><o:feature name="ansible.other.credentials.username" value="u"/>
<node client_id="worker-0" sliver_id="urn:publicid:IDN+example.org+sliver+1" component_id="urn:publicid:IDN+example.org+node+pc1"><interface client_id="w0"><ip address="10.0.0.1"/></interface>
<services><login authentication="ssh-keys" username="alice" hostname="pc1.example.org" port="22"/></services></node>
<node client_id="worker-1" sliver_id="urn:publicid:IDN+example.org+sliver+2"><interface client_id="w1"><ip address="10.0.0.2"/><ip address="2001:db8::2"/></interface>
<services><p:proxy proxy="gw@gate.example.org:22" for="alice@10.9.0.2:22"/><login authentication="ssh-keys" username="alice" hostname="10.9.0.2" port="22"/></services></node>
<node client_id="waiting" sliver_id="urn:publicid:IDN+example.org+sliver+3"/>
<node client_id="all" sliver_id="urn:publicid:IDN+example.org+sliver+4"><services><login authentication="ssh-keys" username="alice" hostname="h" port="22"/></services></node>
<node client_id="3d-7" sliver_id="urn:publicid:IDN+example.org+sliver+6"><services><login authentication="ssh-keys" username="alice" hostname="h" port="22"/></services></node>
<node client_id="{{ 7*7 }}: &amp;x !!python/name&#10;-0" sliver_id="urn:publicid:IDN+example.org+sliver+5"><interface client_id="w5"><ip address="{{ lookup('pipe', 'id') }}"/><ip address="10.0.0.9%{{7*7}}"/></interface>
<services><login authentication="ssh-keys" username="alice" hostname="h" port="22"/></services></node>
<link client_id="lan: {{ 7*7 }}"><interface_ref client_id="w0"/><interface_ref client_id="w1"/><interface_ref client_id="w5"/></link>
</rspec>`

func exampleHosts(t *testing.T) []Host {
	t.Helper()
	m, err := ReadManifest([]byte(exampleManifest), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return Hosts("first", m.Nodes)
}

const exampleInventory = `# Written by patchbay. Use it with: ansible-playbook -i FILE PLAYBOOK
# The sentence "ansible main" of the RADL document names a host that runs the playbooks.
# This inventory connects from the host where you use it.
# waiting has no login.
all:
  hosts:
    3d-7:
      ansible_host: 3d-7.first.patchbay
    7-7-x-python-name-0:
      ansible_host: 7-7-x-python-name-0.first.patchbay
    node-all:
      ansible_host: all.first.patchbay
    worker-0:
      ansible_host: worker-0.first.patchbay
      addresses:
        lan-----7-7---: 10.0.0.1
    worker-1:
      ansible_host: worker-1.first.patchbay
      addresses:
        lan-----7-7---: 10.0.0.2
  vars:
    ansible_ssh_common_args: -F "/home/alice/a b/ssh_config"
  children:
    _3d:
      hosts:
        3d-7: {}
    _7_7_x_python_name:
      hosts:
        7-7-x-python-name-0: {}
    worker:
      hosts:
        worker-0: {}
        worker-1: {}
`

func TestAnsibleInventory(t *testing.T) {
	text, err := AnsibleInventory(exampleHosts(t), []byte(exampleManifest), "/home/alice/a b/ssh_config")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != exampleInventory {
		t.Errorf("got\n%s\nwant\n%s", text, exampleInventory)
	}
}

// TestAnsibleReadsInventory checks that Ansible reads the same hosts and variables from the inventory.
func TestAnsibleReadsInventory(t *testing.T) {
	ansible := require.Tool(t, "ansible-inventory")
	file := filepath.Join(t.TempDir(), "hosts.yml")
	if err := os.WriteFile(file, []byte(exampleInventory), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), ansible, "-i", file, "--list")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil || warnings.Len() > 0 {
		t.Fatalf("%v\n%s", err, warnings.String())
	}
	var got map[string]struct {
		Hosts []string                  `json:"hosts"`
		Vars  map[string]map[string]any `json:"hostvars"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if hosts := got["worker"].Hosts; !reflect.DeepEqual(hosts, []string{"worker-0", "worker-1"}) {
		t.Errorf("worker has %q", hosts)
	}
	vars := got["_meta"].Vars
	if len(vars) != 5 {
		t.Errorf("%d hosts, want 5", len(vars))
	}
	want := map[string]any{"ansible_host": "worker-1.first.patchbay", "ansible_ssh_common_args": `-F "/home/alice/a b/ssh_config"`, "addresses": map[string]any{"lan-----7-7---": "10.0.0.2"}}
	if !reflect.DeepEqual(vars["worker-1"], want) {
		t.Errorf("worker-1 has %v, want %v", vars["worker-1"], want)
	}
}

func TestJSON(t *testing.T) {
	hosts := exampleHosts(t)[:3]
	text, err := JSON("urn:publicid:IDN+example.org+slice+first", time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC), hosts)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "slice": "urn:publicid:IDN+example.org+slice+first",
  "expires": "2026-12-24T18:00:00Z",
  "nodes": [
    {
      "name": "worker-0",
      "sliver": "urn:publicid:IDN+example.org+sliver+1",
      "component": "pc1",
      "ssh": "worker-0.first.patchbay",
      "login": {
        "user": "alice",
        "host": "pc1.example.org",
        "port": 22
      },
      "addresses": [
        {
          "link": "lan: {{ 7*7 }}",
          "address": "10.0.0.1"
        }
      ]
    },
    {
      "name": "worker-1",
      "sliver": "urn:publicid:IDN+example.org+sliver+2",
      "ssh": "worker-1.first.patchbay",
      "login": {
        "user": "alice",
        "host": "10.9.0.2",
        "port": 22
      },
      "gateway": {
        "user": "gw",
        "host": "gate.example.org",
        "port": 22
      },
      "addresses": [
        {
          "link": "lan: {{ 7*7 }}",
          "address": "10.0.0.2"
        },
        {
          "link": "lan: {{ 7*7 }}",
          "address": "2001:db8::2"
        }
      ]
    },
    {
      "name": "waiting",
      "sliver": "urn:publicid:IDN+example.org+sliver+3",
      "addresses": []
    }
  ]
}
`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestGroupsOfInventories checks that the name of a group is neither that of a host, nor means two kinds of nodes.
func TestGroupsOfInventories(t *testing.T) {
	for _, tt := range []struct {
		rule          string
		nodes, groups []string
	}{
		{"numbers", []string{"web-0", "web-1", "db"}, []string{"web", "web", ""}},
		{"two kinds", []string{"a_b-0", "a-b-0", "a_b-1"}, []string{"", "", ""}},
		{"a host", []string{"web-0", "web"}, []string{"", ""}},
		{"a host after folding", []string{"my-web-0", "my_web"}, []string{"", ""}},
		{"Ansible's own", []string{"all-0", "ungrouped-1"}, []string{"", ""}},
	} {
		var nodes []Node
		for _, name := range tt.nodes {
			nodes = append(nodes, Node{Name: name})
		}
		if got := groupsOf(Hosts("exp", nodes)); !reflect.DeepEqual(got, tt.groups) {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.groups)
		}
	}
}
