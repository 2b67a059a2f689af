package main

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
	localtestbed "patchbay/inventory/local/testbed"
	"patchbay/rspec"
)

// hostileWords have a meaning for shells, paths, terminals, formats, YAML, JSON or ssh
// configurations. %c is a file that must not be created.
var hostileWords = []string{
	"$(touch %c) `touch %c`; touch %c & touch %c | touch %c",
	"../../../../../../../../..%c",
	"%c",
	"-oProxyCommand=touch%20%c",
	`x","ensure":"absent","z":["`,
	"- &a [*a, !!python/object/apply:os.system ['touch %c']]",
	"%s%n%d%!v(PANIC) {{.}} ${HOME} %(x)s",
	"\u202eevil\u200bä\U0001f600",
	"eth0", "..",
	strings.Repeat("lo-", 60),
	"' OR \"1\"=\"1' <b>&amp;]]>\\",
}

// linesOfWords have several lines, or escapes for them; such names are refused.
var linesOfWords = []string{
	"a\nHost *\n\tProxyCommand touch %c\n",
	"127.0.0.1 localhost\n10.0.0.1\tevil.example.org # %c",
	"a\rb", "a\tb", "a\u0085b", "a\x7fb", "a\u2028b",
}

// namesRequest requests a node for each word, with the word as every name: of the node,
// its interface, image and link, and the path of an install.
func namesRequest(words []string) string {
	attr := func(name, value string) string {
		var b strings.Builder
		xml.EscapeText(&b, []byte(value))
		return " " + name + `="` + b.String() + `"`
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<rspec type="request" xmlns="%s">`, rspec.Namespace)
	for _, w := range words {
		b.WriteString("<node" + attr("client_id", w) + `><sliver_type name="container"><disk_image` + attr("name", w) + "/></sliver_type>")
		b.WriteString("<services><install" + attr("url", "file:///"+w) + attr("install_path", "/tmp/"+w) + `/></services>`)
		b.WriteString("<interface" + attr("client_id", w+":0") + "/></node>")
	}
	for i := range words[1:] {
		b.WriteString("<link" + attr("client_id", words[i]+" link") + "><interface_ref" + attr("client_id", words[i]+":0") + "/></link>")
	}
	b.WriteString("</rspec>")
	return b.String()
}

// TestOnHostNamesOfDocumentsStayNames creates real nodes from a request with hostile
// names, and checks that the names reach nothing else.
func TestOnHostNamesOfDocumentsStayNames(t *testing.T) {
	s := newLocalSite(t, "names.example.org")
	// The path must be short, since client_ids are limited.
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	canary := filepath.Join(dir, "canary")
	var words []string
	for _, w := range hostileWords {
		words = append(words, strings.ReplaceAll(w, "%c", canary))
	}
	s.createUsers("first")
	// No limits: as many nodes as words, on any disk.
	write(t, filepath.Join(s.dir, "policy.yaml"), "rules: []\n")
	s.start()
	request := filepath.Join(t.TempDir(), "request.xml")
	for _, w := range linesOfWords {
		w = strings.ReplaceAll(w, "%c", canary)
		write(t, request, namesRequest([]string{w}))
		code, out := runCommand(t, "call", "--url", s.url, "--user", filepath.Join(s.dir, "users", "alice"), "--slice", "first", "Allocate", request)
		if code == 0 || !strings.Contains(out, "has a line break or another control character") || strings.Contains(out, w) {
			t.Errorf("%q: %d\n%s", w, code, out)
		}
	}
	write(t, request, namesRequest(words))
	s.call("Allocate", request)
	s.call("Provision")
	wait.Until(t, "all nodes are made", func() bool { return strings.Count(s.call("Status"), "geni_notready") >= len(words) })
	s.call("PerformOperationalAction", "start")
	wait.Until(t, "all nodes are ready", func() bool { return strings.Count(s.call("Status"), "geni_ready") >= len(words) })

	doors := s.logins()
	for _, w := range words {
		at, ok := doors[w]
		if !ok {
			t.Errorf("%q has no login in the manifest", w)
			continue
		}
		out, err := s.ssh("alice", at, "hostname; ls /sys/class/net; echo; cat /etc/hosts")
		if err != nil {
			t.Errorf("%q: %v", w, err)
			continue
		}
		names, hosts, _ := strings.Cut(out, "\n\n")
		list := strings.Split(names, "\n")
		if !label.MatchString(list[0]) {
			t.Errorf("%q has the host name %q", w, list[0])
		}
		for _, device := range list[1:] {
			if !device15.MatchString(device) {
				t.Errorf("%q has the interface %q", w, device)
			}
		}
		for line := range strings.Lines(hosts) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !hostsLine.MatchString(line) {
				t.Errorf("%q: its table of hosts has the line %q", w, line)
			}
		}
		if _, err := s.ssh("alice", at, "geni-get client_id"); err != nil {
			t.Errorf("%q: geni-get client_id: %v", w, err)
		}
		if out, err := s.ssh("alice", at, "test ! -e "+canary+" || echo made"); err != nil || out != "" {
			t.Errorf("%q: something was run inside: %q, %v", w, out, err)
		}
	}
	s.local("list")
	s.call("Delete")
	wait.Until(t, "the nodes are gone", func() bool { return !strings.Contains(s.local("list"), "container") })

	if _, err := os.Lstat(canary); err == nil {
		t.Error("something was run on the host")
	}
	pathsBelow(t, filepath.Join(localtestbed.Root, s.instance))
	s.stop()
	for line := range strings.Lines(readFile(t, s.log.Name())) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "time=") || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' || r == '\u2028' || r == '\u0085' }) {
			t.Errorf("the log has the line %q", line)
		}
	}
}

var (
	label     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	device15  = regexp.MustCompile(`^[a-z0-9-]{1,15}$`)
	hostsLine = regexp.MustCompile(`^[0-9a-f.:]+([ \t]+[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?)+$`)
	fileName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$`)
)

// pathsBelow checks the names of the testbed's files. It ignores the content of images.
func pathsBelow(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // the testbed removes files meanwhile
			}
			return err
		}
		if path == dir {
			return nil
		}
		seen++
		if !fileName.MatchString(e.Name()) {
			t.Errorf("the testbed has made %q", path)
		}
		if e.IsDir() && slices.Contains([]string{"images", "mnt", "root"}, e.Name()) {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files below %s: %v", seen, dir, err)
	}
}

// slicesOfNames are client_ids of nodes on one link, and what their own text reaches on another node: the
// node, or nothing.
var slicesOfNames = map[string]map[string]bool{
	"first": {
		"Client": true, "my_server": true, "pc": false, "PC": false, "a_b": true, "a-b": true, "w.x": true, "w_x": true, "pc1.example.org": true, "3d": true, "_u": true,
	},
	"second": {
		strings.Repeat("l", 63): true, strings.Repeat("m", 64): false, strings.Repeat("n", 70) + "1": false, strings.Repeat("n", 70) + "2": false,
		"10.1": false, "012": false, "0x7f000001": false, "1.2.3.4.5": true, "web.1": true, "münchen": false, "é": false, "all": true, "ip6_localhost": true,
	},
}

// TestOnHostNamesReachTheirNodes creates real nodes whose client_ids are hard to tell apart, and resolves their
// names on one of them. OpenSSH and the inventory for Ansible know each node, too.
func TestOnHostNamesReachTheirNodes(t *testing.T) {
	s := newLocalSite(t, "names2.example.org")
	write(t, filepath.Join(s.dir, "policy.yaml"), "rules: []\n")
	s.start()
	setPublicURL(t, s.dir, s.url)
	s.runOK("user", "alice")
	config := filepath.Join(s.dir, "users", "alice", "ssh_config")
	for slice, reached := range slicesOfNames {
		ids := slices.Sorted(maps.Keys(reached))
		var b strings.Builder
		fmt.Fprintf(&b, `<rspec type="request" xmlns="%s">`, rspec.Namespace)
		at := map[string]string{} // addresses
		for i, id := range ids {
			at[id] = fmt.Sprintf("10.9.0.%d", i+1)
			fmt.Fprintf(&b, `<node client_id="%s"><sliver_type name="container"/><interface client_id="i%d"><ip address="%s" netmask="255.255.255.0"/><ip address="fd09::%d" netmask="64" type="ipv6"/></interface></node>`, id, i, at[id], i+1)
		}
		b.WriteString(`<link client_id="my_lan">`)
		for i := range ids {
			fmt.Fprintf(&b, `<interface_ref client_id="i%d"/>`, i)
		}
		b.WriteString("</link></rspec>")
		request := filepath.Join(t.TempDir(), slice+".xml")
		write(t, request, b.String())
		s.runOK("up", request, "--user", "alice", "--yes")

		resolve := func(names ...string) map[string]string { // the IPv4 address of each name
			t.Helper()
			script := "for n in"
			for _, n := range names {
				script += " '" + n + "'"
			}
			out, err := exec.Command("ssh", "-F", config, "-o", "BatchMode=yes", aliasOf(t, config, slice), script+`; do echo "$n $(getent ahostsv4 "$n" | head -n 1 | cut -d ' ' -f 1) $(getent ahostsv6 "$n" | head -n 1 | cut -d ' ' -f 1)"; done`).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := map[string]string{}
			for line := range strings.Lines(string(out)) {
				if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[1], "10.9.0.") && f[2] == "fd09::"+strings.TrimPrefix(f[1], "10.9.0.") {
					got[f[0]] = f[1]
				} else if len(f) > 1 && strings.HasPrefix(f[1], "10.9.0.") {
					t.Errorf("one family is missing: %s", line)
				}
			}
			return got
		}
		got := resolve(ids...)
		for _, id := range ids {
			if want := map[bool]string{true: at[id]}[reached[id]]; got[id] != want {
				t.Errorf("%q is %q, want %q", id, got[id], want)
			}
		}
		if slice == "first" {
			if got := resolve("my_server-my_lan", "MY-SERVER", "client-my_lan", "pc-2", "pc-3", "a-b-2"); got["my_server-my_lan"] != at["my_server"] || got["MY-SERVER"] != at["my_server"] ||
				got["client-my_lan"] != at["Client"] || got["pc-2"] != at["PC"] || got["pc-3"] != at["pc"] || got["a-b-2"] != at["a_b"] {
				t.Errorf("other names: %v", got)
			}
			for _, id := range []string{"Client", "pc", "PC", "a_b", "a-b"} {
				out, err := exec.Command("ssh", "-F", config, "-o", "BatchMode=yes", id+".first.patchbay", "geni-get client_id").CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != id {
					t.Errorf("ssh %s.first.patchbay: %v\n%s", id, err, out)
				}
			}
			wantTexts(t, s.runOK("export", "first", "--user", "alice", "--format", "ansible"), "\n    pc:\n", "\n    PC:\n", "\n    my_server:\n", "ansible_host: Client.first.patchbay")
		}
		s.runOK("down", slice, "--user", "alice", "--yes")
	}
}

// aliasOf returns a host of the slice.
func aliasOf(t *testing.T, config, slice string) string {
	t.Helper()
	for word := range strings.FieldsSeq(readFile(t, config)) {
		if strings.HasSuffix(word, "."+slice+".patchbay") {
			return word
		}
	}
	t.Fatalf("no node of %s in\n%s", slice, readFile(t, config))
	return ""
}
