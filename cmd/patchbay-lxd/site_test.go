package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"patchbay/am/testkit/wait"
)

// lanRequest is a request for a server, a client, and more nodes on a LAN with a capacity. Server and client
// have steps of another stage, and the server gets a file of the catalogue.
func lanRequest(kbits int, more ...string) string {
	text, interfaces, properties := `<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:setup="http://patchbay.example.org/rspec/ext/setup/1" type="request">`, "", ""
	nodes := append([]string{"server", "client"}, more...)
	for n, name := range nodes {
		services := ""
		switch name {
		case "server":
			services = `<services><install url="catalogue:page.tar.gz" install_path="/opt"/><execute shell="sh" command="echo of server &gt;/etc/setup" setup:order="1"/></services>`
		case "client":
			services = `<services><setup:step name="fetch" order="2"><setup:relation client_id="server"/>` + base64.StdEncoding.EncodeToString([]byte(fetch)) + `</setup:step></services>`
		}
		text += fmt.Sprintf(`
<node client_id=%q exclusive="false"><sliver_type name="container"/>%s
<interface client_id="%s:if"><ip address="10.0.0.%d" netmask="255.255.255.0" type="ipv4"/></interface></node>`, name, services, name, n+1)
		interfaces += fmt.Sprintf(`<interface_ref client_id="%s:if"/>`, name)
		for _, other := range nodes {
			if other != name {
				properties += fmt.Sprintf(`<property source_id="%s:if" dest_id="%s:if" capacity="%d"/>`, name, other, kbits)
			}
		}
	}
	return text + "\n<link client_id=\"lan\">" + interfaces + `<link_type name="lan"/>` + properties + "</link>\n</rspec>\n"
}

// fetch logs in to the target as the experiment's account, and keeps what its step wrote.
const fetch = "#!/bin/sh\nset -e\nping -c 1 -W 5 \"$TARGET_NODE_HOSTNAME\"\necho \"of $TARGET_NODE_CLIENT_ID and client\" >/etc/setup\n"

// site is a served site whose nodes are in a bed's cluster. The server runs in the namespace of the
// first member, and its clients beside the cluster.
type site struct {
	t      *testing.T
	b      *bed
	dir    string
	server *exec.Cmd
	log    *os.File
}

// newSite makes and serves a site, as the guide does.
func newSite(t *testing.T, b *bed) *site {
	t.Helper()
	made, _ := built()
	s := &site{t: t, b: b, dir: filepath.Join(b.dir, "site")}
	b.run(made+"/patchbay", "init", "--provider", "simulated", "--authority", "testbed.example.org", "--public-url", "https://10.98.0.1:8443", s.dir)
	b.run(b.members[0].with(made+"/patchbay-lxd", "setup", "--links", "6", s.dir)...)
	b.run("ip", "netns", "exec", b.members[0].namespace, made+"/patchbay-lxd", "inventory", "--replace", s.dir)
	b.run("sh", "-ec", `mkdir "$0/catalogue"; echo a page >"$0/catalogue/page"; tar -C "$0/catalogue" -czf "$0/catalogue/page.tar.gz" page
		echo "software: [{name: page, version: 1.0, install: page.tar.gz}]" >>"$0/inventory.yaml"`, s.dir)
	b.run(made+"/patchbay", "user", "alice", "--config", s.dir)
	var err error
	if s.log, err = os.Create(filepath.Join(b.dir, "server.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop(syscall.SIGTERM)
		if text, err := os.ReadFile(s.log.Name()); err == nil && t.Failed() {
			t.Logf("the server's log:\n%s", text[max(0, len(text)-5000):])
		}
		s.log.Close()
		worker, _ := os.ReadFile(filepath.Join(s.dir, "providers", "lxd.log"))
		if t.Failed() {
			t.Logf("the worker's log:\n%s", worker)
		}
	})
	s.start()
	return s
}

// start returns when the server answers.
func (s *site) start() {
	s.t.Helper()
	made, _ := built()
	s.server = exec.Command("ip", "netns", "exec", s.b.members[0].namespace, made+"/patchbay", "serve", "--config", s.dir)
	s.server.Stdout, s.server.Stderr = s.log, s.log
	if err := s.server.Start(); err != nil {
		s.t.Fatal(err)
	}
	wait.Success(s.t, "the server does not answer", func() error {
		_, err := s.try("call", "GetVersion")
		return err
	})
}

func (s *site) stop(signal syscall.Signal) {
	if s.server == nil || s.server.ProcessState != nil {
		return
	}
	_ = s.server.Process.Signal(signal)
	_ = s.server.Wait()
}

// write returns the path of a new file.
func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.b.dir, name)
	s.b.write(path, text, 0o644)
	return path
}

// try runs a command of patchbay as alice, outside of the cluster.
func (s *site) try(command string, args ...string) (string, error) {
	made, _ := built()
	words := append([]string{"netns", "exec", s.b.prefix + "-sw", made + "/patchbay", command, "--user", "alice", "--config", s.dir}, args...)
	var stderr bytes.Buffer
	c := exec.Command("ip", words...)
	c.Env = append(os.Environ(), "HOME="+s.b.dir, "XDG_STATE_HOME="+s.b.dir)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("patchbay %s %q: %w\n%s%s", command, args, err, out, stderr.Bytes())
	}
	return string(out), err
}

func (s *site) patchbay(command string, args ...string) string {
	s.t.Helper()
	out, err := s.try(command, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}
