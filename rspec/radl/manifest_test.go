package radl

import (
	"strings"
	"testing"

	"patchbay/schemas"
)

// manifestRSpec returns a manifest with this content.
func manifestRSpec(content string) []byte {
	return []byte(`<rspec type="manifest" xmlns="` + schemas.Namespace + `" xmlns:net="` + schemas.Net + `" xmlns:origin="` + schemas.Origin + `" xmlns:match="` + schemas.Match + `">` + content + `</rspec>`)
}

// exported returns the text for a manifest, without the sentences deploy.
func exported(t *testing.T, manifest []byte) string {
	t.Helper()
	d, err := FromManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	again, problems := Parse(d.Text(), nil)
	for _, p := range problems {
		if !p.IsRemark() {
			t.Errorf("the document is wrong: %s\n%s", p.Text(), d.Text())
		}
	}
	if again == nil || string(again.Text()) != string(d.Text()) {
		t.Errorf("it does not parse to the same:\n%s", d.Text())
	}
	if len(d.Deploys) != len(d.Systems) {
		t.Errorf("%d deploys of %d systems", len(d.Deploys), len(d.Systems))
	}
	text, _, _ := strings.Cut("\n"+string(d.Text()), "\ndeploy ")
	return strings.Join(strings.Fields(text), " ")
}

func TestFromManifest(t *testing.T) {
	node := func(id, content string) string {
		return `<node client_id="` + id + `" sliver_id="urn:publicid:IDN+x+sliver+` + id + `">` + content + `</node>`
	}
	const urn = "instance_id = 'urn:publicid:IDN+x+sliver+"
	for _, c := range []struct{ name, content, want string }{
		{"instance_id is the URN of the sliver", node("a-0", ""), "system a-0 ( " + urn + "a-0')"},
		{"a node without a sliver is another manager's", `<node client_id="b"/>` + node("a", ""), "system a ( " + urn + "a')"},
		{"type, image and what constraints got", node("a", `<sliver_type name="vm"><disk_image name="urn:publicid:IDN+x+image+deb"/></sliver_type><match:granted feature="memory.size" value="8G"/><match:granted feature="cpu.count" value="4"/>`),
			"system a ( " + urn + "a' and instance_type = 'vm' and disk.0.image.url = 'urn:publicid:IDN+x+image+deb' and memory.size = 8G and cpu.count = 4)"},
		{"networks, addresses, names, public addresses, ports", node("a", `<interface client_id="i"><ip address="10.0.0.1" netmask="255.255.255.0"/><ip address="2001:db8::1" netmask="64"/><net:dns name="front"/></interface>`) +
			node("b", `<interface client_id="unused"/><interface client_id="j"><net:public/></interface>`) +
			`<link client_id="lan"><interface_ref client_id="i"/><net:cidr range="10.0.0.0/24"/><net:outports ports="80/tcp"/></link><link client_id="pub"><interface_ref client_id="j"/></link>`,
			"network lan ( cidr = '10.0.0.0/24' and outports = '80/tcp') network pub ( outbound = 'yes') system a ( " + urn + "a' and net_interface.0.connection = 'lan' and net_interface.0.ip = '10.0.0.1' and net_interface.0.ipv6 = '2001:db8::1' and net_interface.0.dns_name = 'front') " +
				"system b ( " + urn + "b' and net_interface.0.connection = 'pub')"},
		{"routes and proxies", node("gw", `<interface client_id="i"/>`) + `<link client_id="lan"><interface_ref client_id="i"/><net:route to="10.9.0.0/16" via="gw"/><net:proxy user="u" host="h.example.org" port="22"/></link>`,
			"network lan ( router = '10.9.0.0/16,gw' and proxy_host = 'u@h.example.org:22') system gw ( " + urn + "gw' and net_interface.0.connection = 'lan')"},
		{"login", node("a", `<services><login username="alice" hostname="h" port="22"/></services>`), "system a ( " + urn + "a' and disk.0.os.credentials.username = 'alice')"},
		{"carried features", node("a", `<origin:feature name="instance_name" value="it's"/><origin:feature name="instance_id" value="other"/>`), "system a ( " + urn + `a' and instance_name = 'it\'s')`},
		{"ansible sentences without secrets", `<origin:feature name="ansible.m.host" value="h.example.org"/><origin:feature name="ansible.m.credentials.username" value="u"/>` + node("a", `<origin:feature name="ansible_host" value="m"/>`),
			"ansible m ( host = 'h.example.org' and credentials.username = 'u' and credentials.password = '') system a ( " + urn + "a' and ansible_host = 'm')"},
		{"names that RADL does not have", node("node 1", "") + node("node-1", "") + node("1", "") + node("deploy", "") + `<link client_id="ö"/>`,
			"network network-- () system node-1 ( " + urn + "node 1') system node-1-2 ( " + urn + "node-1') system system-1 ( " + urn + "1') system system-deploy ( " + urn + "deploy')"},
		{"options and templates are left out", `<origin:feature name="ansible.m.host" value="-oProxyCommand=x"/><origin:feature name="ansible.m.credentials.username" value="u"/>` +
			node("a", `<services><login username="-oProxyCommand=touch${IFS}x" hostname="h"/></services><origin:feature name="instance_name" value="{{ lookup('pipe', 'x') }}"/><origin:feature name="rg_name" value="{% x %}"/><interface client_id="i"/>`) +
			node("b", `<services><login username="bob -oProxyCommand=x" hostname="h"/></services>`) + node("c", `<services><login username="{{x}}" hostname="h"/></services>`) +
			`<link client_id="lan"><interface_ref client_id="i"/><net:proxy user="-F" host="h" port="22"/></link><link client_id="far"><net:proxy user="u" host="-F" port="22"/></link>`,
			"network lan () network far () system a ( " + urn + "a' and net_interface.0.connection = 'lan') system b ( " + urn + "b') system c ( " + urn + "c')"},
		{"hostile values are left out", node("a", `<sliver_type name="x' and cpu.count = 1"/><match:granted feature="cpu.count" value="1) deploy a 9"/><match:granted feature="memory.size" value="8 and"/><match:granted feature="disk.7.size" value="1G"/>`+
			`<origin:feature name="a b" value="c"/><origin:feature name="and" value="c"/><origin:feature name="x" value="c&#10;d"/><origin:feature name="y" value="c\"/><origin:feature name="z" value="@input.Q@"/><origin:feature name="disk.3.type" value="x"/><origin:feature name="disk.2." value="x"/><origin:feature name="net_interface.4.ip" value="1"/><origin:feature name="ansible_host" value="none"/>`+
			`<interface client_id="i"><ip address="10.0.0.1'"/><net:dns name="a' and b"/></interface>`) +
			`<link client_id="lan"><interface_ref client_id="i"/><net:cidr range="x"/><net:outports ports="ssh"/><net:route to="all" via="a"/><net:proxy/></link>`,
			"network lan () system a ( " + urn + `a' and instance_type = 'x\' and cpu.count = 1' and net_interface.0.connection = 'lan')`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exported(t, manifestRSpec(c.content)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// FuzzFromManifest checks that every document is valid.
func FuzzFromManifest(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("system", "disk.0.os.name", "linux", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, id, name, value, other string) {
		var b strings.Builder
		b.WriteString(`<origin:feature`)
		attributes := func(pairs ...string) {
			for i := 0; i < len(pairs); i += 2 {
				b.WriteString(" " + pairs[i] + `="` + strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(pairs[i+1]) + `"`)
			}
		}
		attributes("name", "ansible."+name, "value", value)
		b.WriteString(`/><node`)
		attributes("client_id", id, "sliver_id", other)
		b.WriteString(`><origin:feature`)
		attributes("name", name, "value", value)
		b.WriteString(`/><match:granted`)
		attributes("feature", value, "value", other)
		b.WriteString(`/><interface client_id="i"><net:dns`)
		attributes("name", other)
		b.WriteString(`/></interface></node><link`)
		attributes("client_id", other)
		b.WriteString(`><interface_ref client_id="i"/><origin:feature`)
		attributes("name", name, "value", other)
		b.WriteString(`/><net:outports`)
		attributes("ports", value)
		b.WriteString(`/></link>`)
		if _, err := FromManifest(manifestRSpec(b.String())); err == nil {
			exported(t, manifestRSpec(b.String()))
		}
	})
}
