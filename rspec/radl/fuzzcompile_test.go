package radl_test

import (
	"strings"
	"testing"

	"patchbay/rspec/radl"
)

// FuzzCompile requires that every compiled document is a request that the reader accepts, and that is
// valid by the schemas.
func FuzzCompile(f *testing.F) {
	for _, source := range []string{
		r2("tomcat"), plan10, soft17, roles25,
		"network n (cidr = '10.*.0.0/16' and router = '10.0.0.0/8,s' and proxy_host = 'a:b@c:22' and outports = '80,1-2/udp')\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ipv6 = 'fd00::1' and net_interface.0.dns_name = 's#N#.example.org')\ndeploy s 1\n",
		"network n (cidr = '10.0.0.0/30')\nsystem s (net_interface.0.connection = 'n')\ndeploy s 1 far\ndeploy s 2\n",
		"system s (disk.1.size = 1GB and disk.1.fstype = 'ext4' and disk.1.device = 'hdc' and disk.0.os.credentials.password = 'x' and instance_type = 'vm' and disk.0.image.url = ['a', 'b'])\ndeploy s 1\n",
		recipe("s", "- tasks:\n  - include: t.yml") + recipe("t", "- vars: {a: 1}\n  tasks:\n  - ping:") + "system s ()\ncontextualize 60 (system s configure s step 2\nsystem s configure t with cloud_init)\ndeploy s 1\n",
		recipe("s", "[{tasks: []}]") + "system s ()\ndeploy s 2\n",
	} {
		f.Add(source)
	}
	v := inventoryOf(f, "")
	f.Fuzz(func(t *testing.T, source string) {
		if d, _ := radl.Parse([]byte(source), nil); d == nil || strings.Count(source, "deploy") > 20 {
			t.Skip()
		}
		compile(t, source, radl.Options{Site: v})
		compile(t, source, radl.Options{Nodes: []string{"s-0", "s-7"}, Links: []string{"n"}})
	})
}
