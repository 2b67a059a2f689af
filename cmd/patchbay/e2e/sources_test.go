package e2e

import (
	"testing"
	"testing/fstest"

	"patchbay/am/testkit/require"
	"patchbay/rspec/compile"
)

// page is a script that serves the name of its node by HTTP at port 80.
const page = `#!/usr/bin/perl
use IO::Socket::INET;
$server = IO::Socket::INET->new(LocalPort => 80, Listen => 50, ReuseAddr => 1) or die "port 80: $@";
exit if fork;
$SIG{PIPE} = 'IGNORE';
while ($client = $server->accept) {
    while (<$client> =~ /\S/) { }
    $text = "$ENV{NODE_CLIENT_ID}\n";
    printf {$client} "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", length $text, $text;
    close $client;
}
`

// blueprintSource has two servers behind a balancer.
const blueprintSource = `
name: elastic app
components:
  my_tier:
    type: tier
    initialSize: 2
    nodespec: {type: server, requires: {os: debian, run: {type: ShellScript, content: page}}}
    requires:
      loadbalancer: {publicPort: 8080, membersPort: 80, fulfillment: id:my_lb}
  my_lb: {requires: {dns: {hostname: myapp.example.com}}}
`

// radlSource has two systems, one of which reads the document as a variable in a playbook.
const radlSource = `network net (outbound = 'no')
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

// TestOnHostSources compiles a blueprint and a RADL document for a site with real nodes, and
// checks what the steps of the nodes have done.
func TestOnHostSources(t *testing.T) {
	t.Parallel() // it mostly waits
	require.Tool(t, "ansible-playbook")
	s := newSetupSite(t, "blueprint", "radl")
	offer := s.offer(t)
	offer.Files = fstest.MapFS{"page": {Data: []byte(page)}}
	for slice, tt := range map[string]struct {
		source string
		looks  map[string][2]string // by node: a command and its output
	}{
		"blueprint": {blueprintSource, map[string][2]string{
			"my_lb": {"for i in 1 2; do curl -sf localhost:8080/index.html; done | sort; hostname", "my_tier-0\nmy_tier-1\nmyapp\n"}}},
		"radl": {radlSource, map[string][2]string{
			"front-0": {"sudo cat /root/radl", "thefront of 2"}, "small_node-0": {"sudo cat /root/radl", "10.128.0.1 worker-0"}}},
	} {
		t.Run(slice, func(t *testing.T) {
			t.Parallel()
			r, err := compile.Compile([]byte(tt.source), offer)
			if err != nil {
				t.Fatal(err)
			}
			x := s.slice(t, slice)
			x.create(string(r.Request))
			x.awaitSetUp()
			endpoints := x.logins()
			for node, look := range tt.looks {
				if got := x.run(endpoints[node], look[0]); got != look[1] {
					t.Errorf("%s answers %q to %s, want %q", node, got, look[0], look[1])
				}
			}
			x.delete()
		})
	}
}
