package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/site"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// demoRequest has a data URL with an archive. The archive contains testdata/greet.pl.
//
//go:embed testdata/demo.xml
var demoRequest string

// demoNodes counts the nodes in demoRequest.
const demoNodes = 3

// Beginnings of command lines: calls of the user, and calls about the slice.
const (
	asAlice = "patchbay call --user alice "
	onDemo  = asAlice + "--slice demo "
)

func (d *demo) runSteps() {
	d.step("Invite a user, who logs in and gets a slice")
	out := d.runShown("patchbay authority invite alice")
	if _, login, ok := strings.Cut(out, "\n  patchbay "); d.err == nil && ok {
		d.showFirstLines("patchbay " + strings.TrimSpace(login) + " --dir users/alice")
	}
	d.expect("patchbay login --dir users/alice --slice demo", "urn:publicid:IDN+demo.example.org+slice+demo")

	d.step("Ask what the site offers")
	d.expect(asAlice+"GetVersion", "urn:publicid:IDN+demo.example.org+authority+cm")
	all, before := offered(d.showNode("advertisement", asAlice+"-o - ListResources"))
	if d.err == nil {
		d.print("It offers %s, %d of them free.", display.Count(all, "node"), before)
	}

	d.step("Write a request, and draw it")
	d.showNode("request", "cat request.xml")
	d.draw("request")

	d.step("Reserve it")
	d.expect(onDemo+"-o manifest.xml Allocate request.xml", "allocated")

	d.step("Create the nodes, with an account for the user")
	d.expect(onDemo+"Provision --wait", "3 notready")

	d.step("Start the nodes")
	d.expect(onDemo+"start --wait", "3 ready")

	d.step("See what was installed, and how the links are made")
	if out := d.expect(onDemo + "Status"); d.local && strings.Contains(out, "ERROR") {
		d.err = fmt.Errorf("the nodes are ready, but: %s", out)
	}

	d.step("See how to log in")
	d.runShown(onDemo + "-o manifest.xml Describe")
	manifest := d.showNode("manifest", "cat manifest.xml")
	d.draw("manifest")
	d.findLogins(manifest)
	if d.local && d.err == nil {
		d.whileUp = countLeftovers(d.testbed.Instance)
		d.useNodes()
	}

	d.step("Extend the lease")
	d.expect(onDemo + "Renew 48h")

	d.step("Delete the nodes")
	d.expect(onDemo+"Delete", "unallocated")

	d.step("Check that nothing is left")
	d.expect(onDemo+"Status || true", "SEARCHFAILED (12)")
	for free := -1; d.err == nil && free != before; time.Sleep(100 * time.Millisecond) {
		out, err := d.run(d.ctx, d.command(asAlice+"-o - ListResources"))
		d.err = err
		_, free = offered(out)
	}
	if d.err == nil {
		d.print("%s free, as before.", display.Count(before, "node"))
	}
}

func (d *demo) draw(name string) {
	d.expect("patchbay draw " + name + ".xml")
	d.runShown(fmt.Sprintf("patchbay draw --svg %[1]s.svg %[1]s.xml", name))
	if d.err == nil {
		d.print("The picture: %s.svg%s", filepath.Join(d.dir, name), d.until)
	}
}

// sshConfig makes ssh fail instead of asking. Manifests have no host keys, so ssh accepts
// an unknown key. Later connections to the host must show the same key.
const sshConfig = `BatchMode yes
IdentitiesOnly yes
ConnectTimeout 10
LogLevel ERROR
StrictHostKeyChecking accept-new
UserKnownHostsFile known_hosts
`

// findLogins shows the logins. It writes ssh_config unless the nodes are simulated.
func (d *demo) findLogins(manifest string) {
	if d.err != nil {
		return
	}
	var m experiment.Manifest
	if m, d.err = experiment.ReadManifest([]byte(manifest), ""); d.err != nil {
		return
	}
	found := slices.DeleteFunc(m.Nodes, func(n experiment.Node) bool { return !n.Login.Exists() })
	if len(found) != demoNodes {
		d.err = fmt.Errorf("%d nodes are ready, but the manifest has logins for %d", demoNodes, len(found))
		return
	}
	text := sshConfig
	for _, f := range found {
		d.print("%s: ssh -i users/alice/id_ed25519 -p %d %s@%s", f.Name, f.Login.Port, f.Login.User, f.Login.Host)
		text += fmt.Sprintf("Host %s\n  HostName %s\n  Port %d\n  User %s\n  IdentityFile users/%[4]s/id_ed25519\n", f.Name, f.Login.Host, f.Login.Port, f.Login.User)
	}
	if !d.local {
		d.print("(These nodes are simulated: they do not answer.)")
		return
	}
	d.print("The file ssh_config has the same logins.")
	d.err = site.ReplaceFile(filepath.Join(d.dir, "ssh_config"), []byte(text), 0o644)
}

// useNodes shows the features for experimenters on the nodes.
func (d *demo) useNodes() {
	d.step("Log in, and write a file")
	d.expect(`ssh -F ssh_config server 'echo written before the restart > note; echo "I am $(id -un) on $(hostname)"'`, "I am alice on server")
	d.expect(`ssh -F ssh_config near 'echo "I am $(id -un) on $(hostname)"'`, "I am alice on near")
	d.expect(`ssh -F ssh_config far 'echo "I am $(id -un) on $(hostname)"'`, "I am alice on far")

	d.step("Log in from one node to the other")
	d.expect("ssh -F ssh_config server 'ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new near hostname'", "near")

	d.step("Ask inside a node for its slice and manifest")
	d.expect("ssh -F ssh_config server 'geni-get client_id; geni-get slice_urn'", "server", "urn:publicid:IDN+demo.example.org+slice+demo")
	d.expect(`ssh -F ssh_config server geni-get manifest | grep -o '<node client_id="[^"]*"'`, `"server"`, `"near"`, `"far"`)

	d.step("Query the installed server over the LAN")
	const ask = ` 'exec 3<>/dev/tcp/server/80; printf "GET / HTTP/1.0\r\n\r\n" >&3; sed "1,/^\r$/d" <&3'`
	d.expect("ssh -F ssh_config near"+ask, "hello from server to 10.0.0.2")
	d.expect("ssh -F ssh_config far"+ask, "hello from server to 10.0.0.3")
	d.measure()

	d.step("Restart the nodes; files and host keys stay")
	d.expect(onDemo+"restart --wait", "3 ready")
	d.expect("ssh -F ssh_config server 'cat note; ls /opt/greet'", "written before the restart", "greet.pl")

	d.step("Give a second user an account")
	d.showFirstLines("patchbay user bob")
	d.expect(onDemo+`PerformOperationalAction update_users --wait --login bob`, "3 ready")
	d.expect(`ssh -F ssh_config -i users/bob/id_ed25519 -l bob server 'echo "I am $(id -un) on $(hostname)"'`, "I am bob on server")
}

// linkMeasurement is a result of patchbay-local linktest. Out leads away from the first node. Line
// is a rate in bit/s, and Mean is the time there and back in ms.
type linkMeasurement struct {
	TCP   struct{ Out, In struct{ Line float64 } }
	Delay struct{ Mean float64 }
}

// measure shows each result next to the requested value.
func (d *demo) measure() {
	d.step("Measure the LAN, each direction alone")
	for _, program := range []string{"ping", "iperf3"} {
		if _, err := findProgram(program); err != nil {
			d.print("(This host has no %s.)", program)
			return
		}
	}
	d.print("(This takes 15 s.)")
	t := &table{out: d.out, indent: "    "}
	t.head("from", "to", "capacity requested", "measured", "there and back requested", "measured")
	for _, asked := range []struct{ node, out, in, delay string }{
		{"near", "100", "100", "4"},
		{"far", "2", "10", "50"},
	} {
		out := d.runShown(display.ShellLine([]string{d.testbed.Program, "linktest", "--time", "2s", "--json", d.testbed.Settings, asked.node, "server"}))
		var g []linkMeasurement
		if d.err == nil {
			d.err = json.Unmarshal([]byte(out), &g)
		}
		if d.err == nil && len(g) != 1 {
			d.err = fmt.Errorf("linktest measured %d links, want 1", len(g))
		}
		if d.err != nil {
			return
		}
		rate := func(bits float64) string { return fmt.Sprintf("%.3g Mbit/s", bits/1e6) }
		t.row(asked.node, "server", asked.out+" Mbit/s", rate(g[0].TCP.Out.Line), asked.delay+" ms", fmt.Sprintf("%.3g ms", g[0].Delay.Mean))
		t.row("server", asked.node, asked.in+" Mbit/s", rate(g[0].TCP.In.Line), asked.delay+" ms", fmt.Sprintf("%.3g ms", g[0].Delay.Mean))
	}
	t.flush("")
}
