package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/service/binder"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/step"
)

// Nodes of the image host have the programs of this host; other images may have more.
func TestProgramsThatNodesWillLack(t *testing.T) {
	providers, usr := t.TempDir(), t.TempDir()
	for path, text := range map[string][]byte{
		filepath.Join(providers, "local.prov"): []byte("#!/bin/sh\necho 'settings: {host_image: host}'\n"),
		filepath.Join(providers, "local.yaml"): []byte("provider: {type: node, invoke: json, suitable: true, service: [/bin/patchbay-local], attributes: {name: {type: string}}}\n"),
		filepath.Join(usr, "bin/iperf3"):       nil,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ rule, provider, image, command, want string }{
		{"Lacks", "local", "host", "sudo tcpdump -i eth1 &", `node "a": its execute 1 of 1 uses tcpdump, which this host lacks, and so do its nodes; on the host: apt install tcpdump`},
		{"OncePerProgram", "local", "host", "/usr/sbin/iptables -L; iptables -F|cat", "uses iptables"},
		{"Has", "local", "host", "iperf3 -s", ""},
		{"InEveryNode", "local", "host", "sudo ping b", ""},
		{"OtherImage", "local", "debian-12", "tcpdump", ""},
		{"OtherProvider", "rack", "host", "tcpdump", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var r diagnosis
			r.addMissingPrograms(binder.Binding{Nodes: []binder.Bound{{
				Node: &rspec.Node{ClientID: "a", Services: step.Services{Steps: []step.Requested{{Step: step.Step{Kind: step.Execute, Command: tt.command}}}}}, Component: &inventory.Component{Provider: tt.provider}, Image: tt.image,
			}}}, providers, usr)
			if tt.want == "" && len(r.list) > 0 || tt.want != "" && (len(r.list) != 1 || r.list[0].isError || !strings.Contains(r.list[0].text, tt.want)) {
				t.Errorf("%+v", r.list)
			}
		})
	}
}
